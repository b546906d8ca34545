import Basics
package import ObjectStorage

/// An option as given, and where.
package struct GivenOption: Sendable, Hashable {
    package enum Origin: Sendable, Hashable, CustomStringConvertible {
        /// `isGeneral`: the file sets it for every mount.
        case file(path: String, line: Int, isGeneral: Bool)
        case environment
        case commandLine

        package var description: String {
            switch self {
            case .file(let path, let line, _): "\(path):\(line)"
            case .environment: "environment"
            case .commandLine: "command line"
            }
        }
    }

    /// As it was written.
    package var name: String
    /// nil for a name alone.
    package var value: String?
    package var origin: Origin

    /// Sets the option; an error names the place where it was given.
    func apply(to settings: inout MountSettings) throws(SettingsError) {
        do { try OptionTable.option(named: name).set(value, in: &settings) } catch {
            switch (origin, error) {
            case (.file(let path, let line, _), _):
                throw .badFile(path: path, line: line, reason: error.description)
            case (.environment, .badValue(_, let value, let expected)):
                throw .badValue(name: MountOption.environmentName(of: name), value: value, expected: expected)
            case (.environment, _), (.commandLine, _): throw error
            }
        }
    }
}

/// The sources of a mount's options, in ascending order of precedence: files, environment, command line.
package struct OptionSources: Sendable, Hashable {
    /// Each option that was given, in the order in which they are applied.
    package let options: [GivenOption]

    /// `files` have the options for the mount's bucket.
    package init(
        files: [(path: String, entries: [ConfigFile.Entry])], optionLists: [String], environment: [String: String]
    ) {
        let found = files.flatMap { file in
            file.entries.map {
                GivenOption(
                    name: $0.name, value: $0.value,
                    origin: .file(path: file.path, line: $0.line, isGeneral: $0.isGeneral))
            }
        }
        self.init(found: found, optionLists: optionLists, environment: environment)
    }

    private init(found: [GivenOption], optionLists: [String], environment: [String: String]) {
        var options = found
        for option in OptionTable.options where option.isListed {
            guard let text = environment[option.environmentName], !text.isEmpty else { continue }
            options.append(GivenOption(name: option.name, value: text, origin: .environment))
        }
        for list in optionLists {
            options += MountSettings.options(in: list).map {
                GivenOption(name: $0.name, value: $0.value, origin: .commandLine)
            }
        }
        self.options = options
    }

    /// The options for a bucket, or without one for every mount. `PAILFS_CONFIG` names the files to read, separated by colons;
    /// without it they are `/etc/pailfs/config` and the user's own. Relative paths start at `directory`; nil is the working
    /// directory. With `keptVariable` no file is read. Throws `.badFile`.
    package init(
        for url: BucketURL?, optionLists: [String], environment: [String: String], directory: String? = nil
    ) throws(SettingsError) {
        try Self.requireKnownVariables(environment)
        if let found = environment[Self.keptVariable].flatMap(Self.found) {
            self.init(found: found, optionLists: optionLists, environment: environment)
            return
        }
        var files: [(path: String, entries: [ConfigFile.Entry])] = []
        for path in Self.paths(environment) {
            let place = directory.map { path.hasPrefix("/") ? path : "\($0)/\(path)" } ?? path
            guard let file = try ConfigFile.load(place) else {
                guard environment[Self.filesVariable] == nil else {
                    throw .badFile(
                        path: path, line: nil, reason: "the file does not exist, but \(Self.filesVariable) names it")
                }
                continue
            }
            files.append((path, file.entries(for: url)))
        }
        self.init(files: files, optionLists: optionLists, environment: environment)
    }

    private static let filesVariable = "PAILFS_CONFIG"
    private static let otherVariables = [
        filesVariable, "PAILFS_ACCESS_KEY_ID", "PAILFS_SECRET_ACCESS_KEY", "PAILFS_SESSION_TOKEN",
        "PAILFS_TEMP_URL_KEY",
        keptVariable,
    ]

    /// Refuses a misspelt option in the environment, as on the command line. Names that resemble no option belong to other
    /// programs.
    private static func requireKnownVariables(_ environment: [String: String]) throws(SettingsError) {
        let start = "PAILFS_"
        let others = OptionTable.options.filter { !$0.isListed }.map(\.environmentName)
        let known = OptionTable.options.filter(\.isListed).map(\.environmentName) + otherVariables
        for name in environment.keys.sorted() where name.hasPrefix(start) && !(known + others).contains(name) {
            let ends = known.map { String($0.dropFirst(start.count)) }
            guard let nearest = NearestName.to(String(name.dropFirst(start.count)), among: ends) else { continue }
            throw .unknown(name: name, nearest: start + nearest)
        }
    }

    /// The paths of the option files.
    package static func paths(_ environment: [String: String]) -> [String] {
        if let paths = environment[filesVariable] { return paths.split(separator: ":").map(String.init) }
        var paths = ["/etc/pailfs/config"]
        // The XDG base directory specification ignores paths that are not absolute.
        if let directory = environment["XDG_CONFIG_HOME"], directory.hasPrefix("/") {
            paths.append(directory + "/pailfs/config")
        } else if let home = environment["HOME"], home.hasPrefix("/") {
            paths.append((home == "/" ? "" : home) + "/.config/pailfs/config")
        }
        return paths
    }
}

extension OptionSources {
    /// The variable with the files' options at the time of the mount, for the processes of the mount: one that takes it over must
    /// not serve with others because a file has changed since. It is no argument, as headers may be secrets.
    package static let keptVariable = "PAILFS_KEPT_OPTIONS"

    /// The files' options, as the value of `keptVariable`.
    package var kept: String {
        options.compactMap { given -> String? in
            guard case .file(let path, let line, let isGeneral) = given.origin else { return nil }
            var texts = [path, given.name]
            if let value = given.value { texts.append(value) }
            let encoded = texts.map { PercentEncoding.encode($0, keepingSlash: true) }.joined(separator: " ")
            return "\(line) \(isGeneral ? 1 : 0) \(encoded)"
        }.joined(separator: "\n")
    }

    /// nil for a value that `kept` does not make.
    private static func found(_ kept: String) -> [GivenOption]? {
        var found: [GivenOption] = []
        for entry in kept.split(separator: "\n") {
            let fields = entry.split(separator: " ", omittingEmptySubsequences: false)
            guard fields.count == 4 || fields.count == 5, let line = Int(fields[0]) else { return nil }
            let texts = fields[2...].compactMap { field in
                PercentEncoding.decode(field).map { String(decoding: $0, as: UTF8.self) }
            }
            guard texts.count == fields.count - 2 else { return nil }
            let origin = GivenOption.Origin.file(path: texts[0], line: line, isGeneral: fields[1] == "1")
            found.append(GivenOption(name: texts[1], value: texts.count == 3 ? texts[2] : nil, origin: origin))
        }
        return found
    }
}

extension OptionSources {
    /// A given option of the table.
    package struct Effective: Sendable, Hashable {
        package var name: String
        /// As it was written; for a flag yes or no.
        package var value: String
        package var origin: GivenOption.Origin
    }

    /// The options that were given, in the table's order, each with the value that counts: the last, or all for a repeatable
    /// option. Throws for an unknown name.
    package func effective() throws(SettingsError) -> [Effective] {
        var given: [String: [Effective]] = [:]
        for one in options {
            let option = try OptionTable.option(named: one.name)
            let name = option.opposite ?? option.name
            let value = one.value ?? (option.opposite == nil ? "yes" : "no")
            let effective = Effective(name: name, value: value, origin: one.origin)
            given[name] = (option.isRepeatable ? given[name] ?? [] : []) + [effective]
        }
        return OptionTable.options.filter(\.isListed).flatMap { given[$0.name] ?? [] }
    }

    /// Before a store is made: throws for an option that stores of this kind cannot honour, wherever it was given, so that no
    /// user takes unencrypted objects for encrypted ones. A file's option for every mount is ignored where that loses nothing.
    package func requireHonoured(by scheme: BucketURL.Scheme) throws(SettingsError) {
        for given in try effective() {
            let option = try OptionTable.option(named: given.name)
            guard let schemes = option.schemes, !schemes.contains(scheme), given.value != option.defaultValue else {
                continue
            }
            func error(_ name: String) -> SettingsError {
                .otherStores(name: name, stores: schemes.storeNames, store: scheme.storeName)
            }
            switch given.origin {
            case .file(_, _, true) where option.isLeftOutElsewhere: continue
            case .file(let path, let line, _):
                let section = schemes.first.map { ", or move it below [\($0.rawValue)://]" } ?? ""
                throw .badFile(path: path, line: line, reason: error(given.name).description + section)
            case .environment: throw error(MountOption.environmentName(of: given.name))
            case .commandLine: throw error(given.name)
            }
        }
    }
}
