import ArgumentParser
import Basics
import ObjectStorage

/// A URL with which anyone who has it can read or store an object.
struct PresignCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "presign",
        abstract: "Prints a URL that serves or stores an object without credentials for a limited time.")

    @OptionGroup var object: ObjectArguments
    @Option(help: "Time until the URL expires.") var expires = "1h"
    @Flag(help: "A URL that stores the object, with PUT.") var put = false
    @Option(
        help: ArgumentHelp(
            "Header of the answer, instead of the object's own, such as 'content-type: text/plain'; may be repeated.",
            valueName: "name: value"))
    var header: [String] = []
    @Option(
        help: ArgumentHelp(
            "What the store makes of the object, in that store's words, such as image/resize,w_200.", valueName: "text")
    )
    var process: String?

    mutating func run() throws {
        guard let lifetime = DurationText.parse(expires), lifetime > .zero else {
            throw CommandError("--expires \(expires) is not a time; write 90s, 15m, 12h or 7d")
        }
        guard !put || header.isEmpty && process == nil else {
            throw CommandError(
                "a URL with --put answers with nothing that --header or --process could change; leave them out")
        }
        let overrides = try Self.overrides(header)
        let (session, key) = try object.object(changing: put)
        var request = PresignRequest(key, lifetime: lifetime, use: put ? .put : .get)
        (request.overrides, request.process) = (overrides, process)
        let wanted = request
        let url = try session.answer { store async throws(ObjectStoreError) -> String in
            // A URL for a missing object would only fail when it is used.
            if wanted.use == .get { _ = try await store.head(key, condition: nil) }
            return try store.presign(wanted)
        }
        print(url)
    }

    static func overrides(_ lines: [String]) throws(CommandError) -> [StoredHeader: String] {
        var overrides: [StoredHeader: String] = [:]
        for line in lines {
            let parts = line.split(separator: ":", maxSplits: 1)
            let value = parts.count == 2 ? parts[1].drop { $0 == " " } : ""
            guard let header = StoredHeader(rawValue: parts.first?.lowercased() ?? ""),
                StoredHeader.canCarry(String(value))
            else {
                let names = StoredHeader.allCases.map(\.rawValue).joined(separator: ", ")
                throw CommandError("--header '\(line)' is not 'name: value' with one of \(names)")
            }
            overrides[header] = String(value)
        }
        return overrides
    }
}
