/// What is wrong with an option: the one error type of this room. Each text names option, value and remedy.
package enum SettingsError: Error, Sendable, Hashable {
    /// No such option; the nearest one there is, if any is near.
    case unknown(name: String, nearest: String?)
    /// A value that does not say what it should; `expected` completes "write …".
    case badValue(name: String, value: String, expected: String)
    /// An option without its value; `placeholder` names what belongs there.
    case missingValue(name: String, placeholder: String)
    /// A file of options, or a line of it (from 1), that cannot be used.
    case badFile(path: String, line: Int?, reason: String)
}

extension SettingsError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unknown(let name, let nearest):
            let remedy = nearest.map { "did you mean \($0)?" } ?? "\"pailfs help mount\" lists the options"
            return "there is no option \(name); \(remedy)"
        case .badValue(let name, let value, let expected):
            return "the option \(name) cannot be \"\(value)\"; write \(expected)"
        case .missingValue(let name, let placeholder):
            return "the option \(name) needs a value; write \(name)=\(placeholder)"
        case .badFile(let path, let line, let reason):
            return "\(path)\(line.map { ":\($0)" } ?? ""): \(reason)"
        }
    }
}
