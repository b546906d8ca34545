import ArgumentParser
import ObjectStorage

/// The tags of an object, where the store has tags.
struct TagCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "tag", abstract: "Shows, sets or removes the tags of an object.",
        subcommands: [Get.self, Set.self, Remove.self])

    struct Get: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Shows the tags, one name=value a line.")
        @OptionGroup var object: ObjectArguments

        mutating func run() throws {
            let (session, key) = try object.object()
            let tags = try session.answer { store async throws(ObjectStoreError) in try await store.tags(of: key) }
            for (name, value) in tags.sorted(by: { $0.key < $1.key }) { Output.say("\(name)=\(value)") }
        }
    }

    struct Set: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Sets the given tags; the others stay.")
        @OptionGroup var object: ObjectArguments
        @Argument(help: "name=value") var tags: [String]

        mutating func run() throws {
            var wanted: [String: String] = [:]
            for text in tags {
                guard let equals = text.firstIndex(of: "="), equals > text.startIndex else {
                    throw CommandError("\(text) is not a tag; write name=value")
                }
                wanted[String(text[..<equals])] = String(text[text.index(after: equals)...])
            }
            let (session, key) = try object.object(changing: true)
            try session.answer { [wanted] store async throws(ObjectStoreError) in
                let known = try await store.tags(of: key)
                try await store.setTags(of: key, to: known.merging(wanted) { $1 })
            }
        }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "rm", abstract: "Removes the named tags, or every tag.")
        @OptionGroup var object: ObjectArguments
        @Argument(help: "Names of the tags to remove. Default: every tag.") var names: [String] = []

        mutating func run() throws {
            let (session, key) = try object.object(changing: true)
            try session.answer { [names] store async throws(ObjectStoreError) in
                guard !names.isEmpty else { return try await store.setTags(of: key, to: [:]) }
                var tags = try await store.tags(of: key)
                for name in names { tags[name] = nil }
                try await store.setTags(of: key, to: tags)
            }
        }
    }
}
