import Basics

extension MountSettings {
    /// The environment (`PAILFS_CACHE_SIZE=1G`) first, then each `-o` list in order; the last value wins.
    package init(optionLists: [String], environment: [String: String]) throws(SettingsError) {
        try self.init(OptionSources(files: [], optionLists: optionLists, environment: environment).options)
    }

    /// Every option in order; the last value wins.
    package init(_ options: [GivenOption]) throws(SettingsError) {
        self.init()
        for option in options { try option.apply(to: &self) }
        let names = Set(options.map(\.name))
        for name in names {
            if let base = OptionTable.options.first(where: { $0.name == name })?.base, !names.contains(base) {
                throw .missingBase(name: name, base: base)
            }
        }
        if asOf != nil { readOnly = true }
    }

    /// Applies one list of options, as of `-o`, to the settings of an existing mount; all of it or nothing.
    package mutating func change(_ list: String) throws(SettingsError) {
        var changed = self
        for (name, value) in Self.options(in: list) {
            let option = try OptionTable.option(named: name)
            guard option.isLive else { throw .notLive(name: option.name) }
            try option.set(value, in: &changed)
        }
        try changed.requireConsistent()
        self = changed
    }

    /// Throws for options that contradict each other, or need another one.
    package func requireConsistent() throws(SettingsError) {
        // When an upload in parts begins, the length of the object is not known.
        guard smallestOfClass <= partSize else {
            throw .badValue(
                name: "storage-class-min", value: ByteSize.format(smallestOfClass),
                expected: "\(ByteSize.format(partSize)) at most, which is part-size")
        }
        guard let callbackURL else { return }
        let isURL = callbackURL.split(separator: ";", omittingEmptySubsequences: false).allSatisfy { url in
            ["http://", "https://"].contains { url.lowercased().hasPrefix($0) && url.count > $0.count }
        }
        guard isURL, !callbackURL.contains(" ") else {
            throw .badValue(
                name: "callback-url", value: callbackURL,
                expected: "http://host/path or https://host/path, or several and ;")
        }
        if callbackBody == nil { throw .missingValue(name: "callback-body", placeholder: "text") }
    }

    /// One `-o` list: `name,name=value,…`. A backslash keeps a comma or backslash that belongs to a value.
    package static func options(in list: String) -> [(name: String, value: String?)] {
        split(list).filter { !$0.isEmpty }.map { item in
            guard let equals = item.firstIndex(of: "=") else { return (item, nil) }
            return (String(item[..<equals]), String(item[item.index(after: equals)...]))
        }
    }

    private static func split(_ list: String) -> [String] {
        var items = [""]
        var isEscaped = false
        for character in list {
            if isEscaped {
                if character != ",", character != "\\" { items[items.count - 1].append("\\") }
                items[items.count - 1].append(character)
                isEscaped = false
            } else if character == "\\" {
                isEscaped = true
            } else if character == "," {
                items.append("")
            } else {
                items[items.count - 1].append(character)
            }
        }
        if isEscaped { items[items.count - 1].append("\\") }
        return items
    }

    /// Rewrites each `--name value` and `--name=value` of the table as `-o name=value`; everything else is unchanged, and
    /// arguments after a lone `--` are no options.
    package static func replacingLongOptions(in arguments: [String]) throws(SettingsError) -> [String] {
        var result: [String] = []
        var rest = arguments[...]
        while let argument = rest.popFirst() {
            if argument == "--" { return result + [argument] + rest }
            let parts = argument.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard argument.hasPrefix("--"), let name = parts.first.map(String.init), !otherLongOptions.contains(name)
            else {
                result.append(argument)
                continue
            }
            let option = try OptionTable.option(named: name)
            var item = option.name
            if let placeholder = option.placeholder {
                guard let value = parts.count > 1 ? String(parts[1]) : rest.popFirst() else {
                    throw .missingValue(name: "--\(name)", placeholder: placeholder)
                }
                item += "=" + value
            } else if parts.count > 1 {
                item += "=" + parts[1]
            }
            result += ["-o", escaped(item)]
        }
        return result
    }

    /// Long options that belong to the command itself.
    private static let otherLongOptions: Set<String> = [
        "help", "version", "help-hidden", "foreground", "fuse-socket", "fuse-socket-wait", "fluid",
    ]

    private static func escaped(_ item: String) -> String {
        item.reduce(into: "") { text, character in
            if character == "," || character == "\\" { text.append("\\") }
            text.append(character)
        }
    }
}
