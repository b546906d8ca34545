package import Basics

/// The names that a mount shows: rules in the order in which they were given, of which the first that fits counts.
///
/// A name that no rule fits is shown, unless all rules include: then only directories are. Everything below a hidden directory is
/// hidden with it.
package struct KeyFilter: Sendable, Hashable {
    package struct Rule: Sendable, Hashable {
        package let isIncluded: Bool
        private let pattern: NamePattern

        /// nil for a pattern that is empty or has an error.
        package init?(_ text: String, isIncluded: Bool) {
            guard let pattern = NamePattern(text) else { return nil }
            (self.pattern, self.isIncluded) = (pattern, isIncluded)
        }

        /// Whether the rule fits; nil where that depends on the kind, which is not known.
        func fits(_ path: ByteString, _ name: ByteString, isDirectory: Bool?) -> Bool? {
            guard pattern.matches(path: path, name: name) else { return false }
            return pattern.isForDirectories ? isDirectory : true
        }
    }

    package let rules: [Rule]

    /// nil without rules.
    package init?(_ rules: [Rule]) {
        guard !rules.isEmpty else { return nil }
        self.rules = rules
    }

    /// Whether the mount hides `name`, at `directory + name` from its top. `isDirectory` is nil where the kind is not known: true
    /// then means that a name of either kind is hidden.
    package func hides(_ name: ByteString, in directory: ByteString, isDirectory: Bool?) -> Bool {
        let path = directory + name
        for rule in rules {
            switch rule.fits(path, name, isDirectory: isDirectory) {
            case true?: return !rule.isIncluded
            case nil:
                return hides(name, in: directory, isDirectory: true) && hides(name, in: directory, isDirectory: false)
            case false?: continue
            }
        }
        return isDirectory == false && rules.allSatisfy(\.isIncluded)
    }
}

/// The limits that the options of a mount set, beyond those of its store.
package struct MountLimits: Sendable, Hashable {
    package var filter: KeyFilter?
    /// The length that no file may exceed by a write, in bytes.
    package var largestFile = Int64.max

    package init() {}
}
