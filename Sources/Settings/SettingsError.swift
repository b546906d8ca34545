/// An error in an option: the one error type of this module. Each text names option, value and remedy.
package enum SettingsError: Error, Sendable, Hashable {
    /// No such option; with the nearest option's name, if one is near.
    case unknown(name: String, nearest: String?)
    /// An option of another program, and the option of pailfs for its purpose.
    case otherProgram(name: String, remedy: String)
    /// A secret, which the command line must not contain, since other users can see it.
    case secret(name: String)
    /// A value of the wrong form; `expected` completes "write …".
    case badValue(name: String, value: String, expected: String)
    /// An option without its value; `placeholder` is the value's name.
    case missingValue(name: String, placeholder: String)
    /// An option that does nothing without another one.
    case missingBase(name: String, base: String)
    /// Only stores of other kinds support it.
    case otherStores(name: String, stores: String, store: String)
    /// Only a new mount can change it.
    case notLive(name: String)
    /// A file of options, or a line of it (from 1), that cannot be used.
    case badFile(path: String, line: Int?, reason: String)
}

extension SettingsError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .unknown(let name, let nearest):
            let remedy = nearest.map { "did you mean \($0)?" } ?? "\"pailfs help mount\" lists the options"
            return "there is no option \(name); \(remedy)"
        case .otherProgram(let name, let remedy): return "the option \(name) is another program's; \(remedy)"
        case .secret(let name):
            return
                "there is no option \(name), since other users can read the command line; set PAILFS_ACCESS_KEY_ID and "
                + "PAILFS_SECRET_ACCESS_KEY in the environment, or credentials-file to a file that has them"
        case .badValue(let name, let value, let expected):
            return "the option \(name) cannot be \"\(value)\"; write \(expected)"
        case .missingValue(let name, let placeholder):
            return "the option \(name) needs a value; write \(name)=\(placeholder)"
        case .missingBase(let name, let base): return "the option \(name) does nothing without \(base); set \(base) too"
        case .otherStores(let name, let stores, let store):
            return "the option \(name) is for \(stores), not for \(store); leave it out"
        case .notLive(let name):
            let live = OptionTable.liveNames.joined(separator: ", ")
            return
                "the option \(name) cannot change while mounted; unmount, and mount again with it (options that can change: \(live))"
        case .badFile(let path, let line, let reason):
            return "\(path)\(line.map { ":\($0)" } ?? ""): \(reason)"
        }
    }
}
