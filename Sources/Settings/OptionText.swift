import ObjectStorage

extension MountOption {
    /// `PAILFS_` and the name in capitals.
    package var environmentName: String { Self.environmentName(of: name) }

    static func environmentName(of name: String) -> String {
        "PAILFS_" + OptionTable.spelling(name).map { $0 == "-" ? "_" : $0 }.uppercased
    }

    /// The left column of the help.
    var usage: String { placeholder.map { "\(name)=\($0)" } ?? name }

    /// The help, the stores and values that the option is for, and the default if there is one.
    var sentences: String {
        var parts = [help]
        if let schemes { parts.append("Only for \(schemes.storeNames).") }
        if let limits { parts.append("From \(limits).") }
        if let text = defaultValue ?? otherwise { parts.append("Default: \(text).") }
        return parts.joined(separator: " ")
    }
}

extension BucketURL.Scheme {
    /// The usual name of the stores of a scheme.
    var storeName: String {
        switch self {
        case .s3: "S3"
        case .oss: "OSS"
        case .cos: "COS"
        case .kodo: "Kodo"
        case .cssp: "CSSP"
        case .swift: "Swift"
        }
    }
}

extension [BucketURL.Scheme] {
    /// `S3, OSS and COS`.
    var storeNames: String {
        let names = map(\.storeName)
        guard names.count > 1, let last = names.last else { return names.first ?? "" }
        return names.dropLast().joined(separator: ", ") + " and " + last
    }
}

extension [Character] {
    fileprivate var uppercased: String { String(self).uppercased() }
}

extension OptionTable {
    /// The options' names and values in their groups, for `--help`: less than a screen of 80 columns.
    package static var helpText: String {
        groups.map { group in
            let options = group.options.filter { $0.base == nil }
            return "  \(group.title)\n" + fill(options.map { $0.usage[...] }, indent: 4, width: 78)
        }.joined(separator: "\n")
    }

    /// The manual's descriptions of the named options; without a name, of all options in their groups.
    ///
    /// - Throws: `SettingsError.unknown` if no option has the name.
    package static func descriptions(of names: [String]) throws(SettingsError) -> String {
        guard names.isEmpty else {
            var wanted: [MountOption] = []
            for name in names { wanted.append(try option(named: name)) }
            return description(of: wanted.filter(\.isListed))
        }
        return groups.map { "\($0.title)\n\n" + description(of: $0.options) }.joined(separator: "\n\n")
    }

    private static func description(of options: [MountOption]) -> String {
        options.map { "  \($0.usage)\n" + fill($0.sentences.split(separator: " "), indent: 6, width: 78) }.joined(
            separator: "\n")
    }

    /// The options as a list in mdoc(7) for each group; inserted into the manual page unchanged.
    package static var manualText: String {
        groups.map { group in
            let items = group.options.map { option in
                let value = option.placeholder.map { " Ns = Ns \(manualValue($0))" } ?? ""
                return ".It Cm \(option.name)\(value)\n" + manualSentences(option.sentences) + "\n"
            }
            return ".Ss \(group.title)\n.Bl -tag -width Ds\n" + items.joined() + ".El\n"
        }.joined()
    }

    private static func manualValue(_ placeholder: String) -> String {
        if placeholder.contains("|") {
            return placeholder.split(separator: "|").map { "Cm \($0)" }.joined(separator: " | ")
        }
        return placeholder.contains(" ") ? "Ar \"\(placeholder)\"" : "Ar \(placeholder)"
    }

    /// mdoc requires each sentence on a line of its own.
    private static func manualSentences(_ text: String) -> String {
        var lines: [String] = [""]
        for word in text.split(separator: " ") {
            if !lines[lines.count - 1].isEmpty { lines[lines.count - 1] += " " }
            lines[lines.count - 1] += word.replacing("\\", with: "\\e")
            if word.hasSuffix(".") { lines.append("") }
        }
        return lines.filter { !$0.isEmpty }.joined(separator: "\n")
    }

    private static func fill(_ words: [Substring], indent: Int, width: Int) -> String {
        let margin = String(repeating: " ", count: indent)
        var lines: [String] = []
        for word in words {
            if let last = lines.last, last.count + 1 + word.count <= width {
                lines[lines.count - 1] = last + " " + word
            } else {
                lines.append(margin + word)
            }
        }
        return lines.joined(separator: "\n")
    }
}
