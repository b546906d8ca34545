/// Figures in the text format of Prometheus (its documentation, "Exposition formats", version 0.0.4).
struct Exposition {
    enum Kind: String {
        case counter, gauge, summary
    }

    /// One line: labels in their order, and the value.
    struct Sample {
        var suffix = ""
        var labels: [(name: String, value: String)] = []
        var value: Double

        init(_ value: some BinaryInteger, _ labels: (name: String, value: String)..., suffix: String = "") {
            (self.value, self.labels, self.suffix) = (Double(value), labels, suffix)
        }

        init(_ value: Double, _ labels: (name: String, value: String)..., suffix: String = "") {
            (self.value, self.labels, self.suffix) = (value, labels, suffix)
        }
    }

    private(set) var text = ""

    /// Adds a metric, unless it has no samples. Counters' names end in `_total`, units are base units.
    mutating func add(_ name: String, _ kind: Kind, _ help: String, _ samples: [Sample]) {
        guard !samples.isEmpty else { return }
        text += "# HELP pailfs_\(name) \(help)\n# TYPE pailfs_\(name) \(kind.rawValue)\n"
        for sample in samples {
            text += "pailfs_\(name)\(sample.suffix)"
            if !sample.labels.isEmpty {
                let labels = sample.labels.map { "\($0.name)=\"\(Self.escaped($0.value))\"" }
                text += "{\(labels.joined(separator: ","))}"
            }
            text += " \(Self.number(sample.value))\n"
        }
    }

    mutating func add(_ name: String, _ kind: Kind, _ help: String, _ value: some BinaryInteger) {
        add(name, kind, help, [Sample(value)])
    }

    private static func number(_ value: Double) -> String {
        value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
    }

    private static func escaped(_ value: String) -> String {
        value.reduce(into: "") { text, character in
            switch character {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n", "\r\n": text += "\\n"
            default: text.append(character)
            }
        }
    }
}
