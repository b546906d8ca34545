package import ObjectStorage

/// A setting that a provider's own tools or SDKs read: a variable of the environment, or a name in one of their files.
///
/// One table for all stores says which of them pailfs reads. A mount warns of one that is set and not read if it determines where
/// requests go, which of them are allowed, or which servers are trusted; `doctor` shows the others too.
package struct ToolSetting: Sendable, Hashable {
    /// Where it is set.
    package enum Place: Sendable, Hashable, CaseIterable {
        case variable, awsProfile, ossutil, coscmd, coscli, cloud
    }

    package enum Use: Sendable, Hashable {
        /// pailfs reads it.
        case read
        /// These options of a mount have the same effect.
        case option([String])
        /// No option has the same effect. The text is the remedy.
        case remedy(String)
        /// It has no effect on requests for objects.
        case meaningless
    }

    /// The values with which it differs from a mount's behaviour.
    package enum Values: Sendable, Hashable {
        case all, yes, no
        case one(String)
        case allBut(String)

        func contains(_ value: String) -> Bool {
            let value = value.lowercased()
            switch self {
            case .all: return !value.isEmpty
            case .yes: return ["true", "1", "yes", "y", "on", "t"].contains(value)
            case .no: return ["false", "0", "no", "n", "off", "f"].contains(value)
            case .one(let text): return value == text
            case .allBut(let text): return !value.isEmpty && value != text
            }
        }
    }

    package let place: Place
    /// nil is every store.
    package let store: BucketURL.Scheme?
    package let name: String
    package let use: Use
    let values: Values
    /// Whether a mount warns of it.
    package let isGrave: Bool

    init(
        _ place: Place, _ store: BucketURL.Scheme?, _ name: String, _ use: Use, if values: Values = .all,
        isGrave: Bool = false
    ) {
        (self.place, self.store, self.name, self.use) = (place, store, name, use)
        (self.values, self.isGrave) = (values, isGrave)
    }

    /// A variable of the environment.
    init(
        _ store: BucketURL.Scheme?, _ name: String, _ use: Use, if values: Values = .all, isGrave: Bool = false
    ) {
        self.init(.variable, store, name, use, if: values, isGrave: isGrave)
    }

    /// The environment, or a file's values for the profile of a mount.
    package struct Source: Sendable, Hashable {
        package var place: Place
        /// For messages; empty for the environment.
        package var origin: String
        package var values: [String: String]

        package init(_ place: Place, _ origin: String = "", _ values: [String: String]) {
            (self.place, self.origin, self.values) = (place, origin, values)
        }
    }

    /// A setting that is set and has no effect.
    package struct Unread: Sendable, Hashable, CustomStringConvertible {
        package var name: String
        /// The file that it is in; empty for a variable.
        package var origin: String
        package var remedy: String
        package var isGrave: Bool

        package var description: String {
            "\(name)\(origin.isEmpty ? "" : " of \(origin)") has no effect; \(remedy)"
        }
    }

    /// The settings of `sources` that are not read. A setting is left out when an option that replaces it is given.
    package static func unread(
        in sources: [Source], of store: BucketURL.Scheme, options: Set<String> = []
    ) -> [Unread] {
        sources.flatMap { source in
            table.compactMap { setting -> Unread? in
                guard setting.place == source.place, setting.store ?? store == store,
                    let value = source.values[setting.name], setting.values.contains(value),
                    let remedy = setting.remedy(options)
                else { return nil }
                return Unread(
                    name: setting.name, origin: source.origin, remedy: remedy, isGrave: setting.isGrave)
            }
        }
    }

    private func remedy(_ given: Set<String>) -> String? {
        switch use {
        case .read, .meaningless: nil
        case .remedy(let text): text
        case .option(let names):
            given.isDisjoint(with: names) ? "set the option \(names.joined(separator: " or "))" : nil
        }
    }
}
