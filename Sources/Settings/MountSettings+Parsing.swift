extension MountSettings {
    /// The environment (`PAILFS_CACHE_SIZE=1G`) first, then each `-o` list in order; what comes later wins.
    package init(optionLists: [String], environment: [String: String]) throws(SettingsError) {
        self.init()
        for option in OptionTable.options where option.isListed {
            guard let text = environment[option.environmentName], !text.isEmpty else { continue }
            do { try option.set(text, in: &self) } catch {
                guard case .badValue(_, let value, let expected) = error else { throw error }
                throw .badValue(name: option.environmentName, value: value, expected: expected)
            }
        }
        for list in optionLists { try apply(list) }
    }

    /// One `-o` list: `name,name=value,…`. A backslash keeps a comma or backslash that belongs to a value.
    package mutating func apply(_ list: String) throws(SettingsError) {
        for item in Self.split(list) where !item.isEmpty {
            guard let equals = item.firstIndex(of: "=") else {
                try OptionTable.option(named: item).set(nil, in: &self)
                continue
            }
            let value = String(item[item.index(after: equals)...])
            try OptionTable.option(named: String(item[..<equals])).set(value, in: &self)
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

    /// Rewrites each `--name value` and `--name=value` of the table as `-o name=value`; everything else stays, and
    /// what follows a lone `--` is no option.
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
    private static let otherLongOptions: Set<String> = ["help", "version", "help-hidden", "foreground"]

    private static func escaped(_ item: String) -> String {
        item.reduce(into: "") { text, character in
            if character == "," || character == "\\" { text.append("\\") }
            text.append(character)
        }
    }
}
