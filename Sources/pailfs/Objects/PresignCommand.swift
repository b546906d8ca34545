import ArgumentParser
import Basics
import ObjectStorage

/// A URL that serves an object to whoever has it.
struct PresignCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "presign", abstract: "Prints a URL that serves an object without credentials for a limited time.")

    @OptionGroup var object: ObjectArguments
    @Option(help: "Time until the URL expires.") var expires = "1h"

    mutating func run() throws {
        guard let lifetime = DurationText.parse(expires), lifetime > .zero else {
            throw CommandError("--expires \(expires) is not a time; write 90s, 15m, 12h or 7d")
        }
        let (session, key) = try object.object()
        // A URL for nothing would only show later that it is of no use.
        let url = try session.answer { store async throws(ObjectStoreError) -> String in
            _ = try await store.head(key, condition: nil)
            return try store.presign(key, lifetime: lifetime)
        }
        print(url)
    }
}
