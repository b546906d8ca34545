/// A text with `$(name)` in it: the `returnBody` and `saveKey` of put policies (Kodo API, upload policy).
struct KodoTemplate {
    let text: String

    /// The text as JSON: inside a string a value stands as it is, elsewhere as a JSON value.
    func json(_ value: (String) -> JSONValue?) -> String {
        fill { name, isQuoted in
            let value = value(name)
            guard isQuoted else { return (value ?? .null).text }
            return switch value {
            case .string(let text)?: String(JSONText.quote(text).dropFirst().dropLast())
            case nil, .null?: ""
            case let other?: other.text
            }
        }
    }

    /// The text with every value as it is: for names of objects.
    func plain(_ value: (String) -> JSONValue?) -> String {
        fill { name, _ in
            switch value(name) {
            case .string(let text)?: text
            case nil, .null?: ""
            case let other?: other.text
            }
        }
    }

    private func fill(_ insertion: (_ name: String, _ isQuoted: Bool) -> String) -> String {
        var output = ""
        var rest = Substring(text)
        var isQuoted = false
        while let first = rest.first {
            if first == "$", rest.dropFirst().first == "(", let end = rest.firstIndex(of: ")") {
                output += insertion(String(rest[..<end].dropFirst(2)), isQuoted)
                rest = rest[rest.index(after: end)...]
                continue
            }
            let length = first == "\\" && isQuoted ? 2 : 1
            if first == "\"" { isQuoted.toggle() }
            output += rest.prefix(length)
            rest = rest.dropFirst(length)
        }
        return output
    }
}
