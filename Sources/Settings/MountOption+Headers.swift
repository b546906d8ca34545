import Basics
import ObjectStorage

/// Options that have headers as values.
extension MountOption {
    /// A header for each request, which may be given several times (RFC 9110 section 5.1: the name is a token).
    static func header(_ name: String, _ field: Field<[MountSettings.Header]>, _ help: String) -> MountOption {
        MountOption(name, "'name: value'", default: nil, help: help, isRepeatable: true) {
            (name, text, settings) throws(SettingsError) in
            let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let token = parts[0]
            let isToken = token.utf8.allSatisfy { byte in
                (byte > 0x20 && byte < 0x7f) && !"\"(),/:;<=>?@[\\]{}".utf8.contains(byte)
            }
            let value = parts.count > 1 ? parts[1].drop { $0 == " " } : ""
            guard parts.count == 2, !token.isEmpty, isToken, value.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7f }) else {
                throw .badValue(name: name, value: text, expected: "a header such as 'X-Name: value'")
            }
            settings[keyPath: field].append(MountSettings.Header(name: String(token), value: String(value)))
        }
    }

    /// A variable of an upload's callback, which may be given several times; the store's name for it begins with `x:`.
    static func variable(_ name: String, _ field: Field<[String: String]>, _ help: String) -> MountOption {
        MountOption(name, "name=value", default: nil, help: help, isRepeatable: true) {
            (name, text, settings) throws(SettingsError) in
            let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let isName = parts[0].utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == 95 }
            let value = parts.count > 1 ? parts[1] : ""
            guard parts.count == 2, !parts[0].isEmpty, isName,
                !value.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7f })
            else {
                throw .badValue(
                    name: name, value: text,
                    expected: "a name of small letters, digits and _, an equals sign and its value")
            }
            settings[keyPath: field]["x:\(parts[0])"] = String(value)
        }
    }

    /// A header for the files of a pattern, which may be given several times.
    static func headerRule(_ name: String, _ field: Field<[HeaderRule]>, _ help: String) -> MountOption {
        MountOption(name, "'pattern: header: value'", default: nil, help: help, isRepeatable: true) {
            (name, text, settings) throws(SettingsError) in
            guard let rule = HeaderRule(text) else {
                throw .badValue(
                    name: name, value: text,
                    expected: "a pattern for files, a stored header ("
                        + StoredHeader.allCases.map(\.rawValue).joined(separator: ", ")
                        + " or x-amz-meta-NAME) and its value, such as '*.gz: Content-Encoding: gzip'")
            }
            settings[keyPath: field].append(rule)
        }
    }
}
