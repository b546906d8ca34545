import ArgumentParser
import Basics
import ObjectStorage

/// The access control list of an object, or of a container where the store has lists for these.
struct AccessCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "acl", abstract: "Shows or replaces the access control list of an object or a container.",
        subcommands: [Get.self, Set.self])

    struct Get: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Shows the list, one grant a line.")
        @OptionGroup var object: ObjectArguments

        mutating func run() throws {
            let (session, key) = try AccessCommand.open(object)
            guard let key else {
                let usage = try session.answer { store async throws(ObjectStoreError) in try await store.usage() }
                if let readers = usage.readers { Output.say("readers \(readers)") }
                if let writers = usage.writers { Output.say("writers \(writers)") }
                return
            }
            let access = try session.answer { store async throws(ObjectStoreError) in
                try await store.accessControl(of: key)
            }
            for line in AccessCommand.lines(access) { Output.say(line) }
        }
    }

    struct Set: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Replaces the list.",
            discussion: """
                CANNED is a name that the store defines, such as private or public-read. A grant is written
                user:ID=PERMISSION, group:URI=PERMISSION or email:ADDRESS=PERMISSION, with permissions of the store, such as
                READ, READ_ACP, WRITE_ACP or FULL_CONTROL. A container of CSSP or Swift takes --readers and --writers, such
                as .r:* for everyone; with an empty text only the owner has access.
                """)
        @OptionGroup var object: ObjectArguments
        @Argument(help: "A canned list.") var canned: String?
        @Option(help: ArgumentHelp("A grant; may be repeated.", valueName: "grantee=permission")) var grant: [String] =
            []
        @Option(help: ArgumentHelp("Who may read a container.", valueName: "list")) var readers: String?
        @Option(help: ArgumentHelp("Who may write into one.", valueName: "list")) var writers: String?

        private var isOfContainer: Bool { readers != nil || writers != nil }

        mutating func validate() throws {
            guard [canned != nil, !grant.isEmpty, isOfContainer].count(where: { $0 }) == 1 else {
                throw ValidationError(
                    "write either the name of a canned list or --grant, or of a container --readers and --writers")
            }
            for list in [readers, writers].compactMap(\.self) where !list.isEmpty && !StoredHeader.canCarry(list) {
                throw ValidationError(
                    "\(list) cannot be a list: it is sent as a header; write printable ASCII characters")
            }
        }

        mutating func run() throws {
            if isOfContainer {
                let (session, key) = try AccessCommand.open(object, changing: true)
                guard key == nil else {
                    throw CommandError(
                        "--readers and --writers are of a container, and \(object.url) is not one; leave them out")
                }
                let change = BucketChange(readers: readers, writers: writers)
                return try session.answer { store async throws(ObjectStoreError) in try await store.changeBucket(change)
                }
            }
            let access = AccessControl(canned: canned, grants: try grant.map(AccessCommand.grant))
            let (session, key) = try object.object(changing: true)
            try session.answer { store async throws(ObjectStoreError) in
                try await store.setAccessControl(of: key, to: access)
            }
        }
    }

    /// The object; nil for a container, where the store has lists for these.
    private static func open(
        _ object: ObjectArguments, changing: Bool = false
    ) throws(CommandError) -> (session: ObjectStoreSession, key: ObjectKey?) {
        let (session, path) = try object.location.open(object.url, changing: changing)
        if path.isEmpty, !session.isAccount, session.capabilities.bucketProperties { return (session, nil) }
        return (session, try object.key(path))
    }

    static func lines(_ access: AccessControl) -> [String] {
        (access.canned.map { ["acl: \($0)"] } ?? []) + access.grants.map { "grant \($0.text)" }
    }

    static func grant(_ text: String) throws(CommandError) -> AccessControl.Grant {
        guard let grant = AccessControl.Grant(text: text) else {
            throw CommandError("\(text) is not a grant; write user:ID=READ, group:URI=READ or email:ADDRESS=READ")
        }
        return grant
    }
}
