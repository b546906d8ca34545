import ArgumentParser
import ObjectStorage

/// The access control list of an object.
struct AccessCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "acl", abstract: "Shows or replaces the access control list of an object.",
        subcommands: [Get.self, Set.self])

    struct Get: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Shows the list, one grant a line.")
        @OptionGroup var object: ObjectArguments

        mutating func run() throws {
            let (session, key) = try object.object()
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
                READ, READ_ACP, WRITE_ACP or FULL_CONTROL.
                """)
        @OptionGroup var object: ObjectArguments
        @Argument(help: "A canned list.") var canned: String?
        @Option(help: ArgumentHelp("A grant; may be repeated.", valueName: "grantee=permission")) var grant: [String] =
            []

        mutating func validate() throws {
            guard (canned == nil) != grant.isEmpty else {
                throw ValidationError("write either the name of a canned list or --grant")
            }
        }

        mutating func run() throws {
            let access = AccessControl(canned: canned, grants: try grant.map(AccessCommand.grant))
            let (session, key) = try object.object(changing: true)
            try session.answer { store async throws(ObjectStoreError) in
                try await store.setAccessControl(of: key, to: access)
            }
        }
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
