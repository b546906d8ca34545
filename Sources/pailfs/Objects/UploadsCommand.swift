import ArgumentParser
import Basics
import ObjectStorage

/// Uploads that were begun and neither completed nor aborted: their parts are stored, and paid for, unseen.
struct UploadsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uploads", abstract: "Lists or aborts unfinished multipart uploads.",
        subcommands: [List.self, Abort.self])

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists uploads: start, bytes received, upload ID, key.",
            discussion: """
                Where no upload is of the URL's key or below it, those of every key that begins with the URL's path are listed.
                """)
        @Argument(help: "scheme://bucket, scheme://bucket/prefix or a directory in a mount") var url: String
        @OptionGroup var location: StoreOptions
        @Flag(name: .short, help: "Show storage class and initiator too.") var long = false
        @Flag(help: "Also a line for each part: number, bytes, ETag.") var parts = false
        @Flag(help: "Print each upload as a JSON object on a line of its own.") var json = false

        mutating func run() throws {
            let (session, path) = try location.open(url)
            for upload in try UploadsCommand.uploads(session, path, orBeginning: true) {
                let received = try session.answer { store async throws(ObjectStoreError) -> [UploadedPart] in
                    do throws(ObjectStoreError) { return try await store.listParts(upload.key, upload.upload) } catch {
                        // The upload has ended meanwhile.
                        guard error.kind == .noSuchUpload else { throw error }
                        return []
                    }
                }
                let line = UploadLine(upload, received, showingParts: parts)
                if json { try Output.jsonLine(line) } else { line.print(upload.key, long: long) }
            }
        }
    }

    struct Abort: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Aborts uploads older than a given age, or one of them.",
            discussion: """
                Uploads of other programs and machines are aborted too. Choose an age that no upload in progress reaches.
                """)
        @Argument(help: "scheme://bucket, scheme://bucket/prefix or a directory in a mount") var url: String
        @OptionGroup var location: StoreOptions
        @Option(help: ArgumentHelp("Least age, such as 12h or 7d.", valueName: "age")) var olderThan: String?
        @Option(help: ArgumentHelp("The upload of this ID, whatever its age.", valueName: "upload")) var id: String?

        mutating func run() throws {
            guard (olderThan == nil) != (id == nil) else {
                throw CommandError(
                    "say which uploads: either --older-than with an age, or --id with one from \"uploads list\"")
            }
            var limit: Timestamp?
            if let olderThan {
                guard let age = DurationText.parse(olderThan) else {
                    throw CommandError("--older-than \(olderThan) is not a time; write 90m, 12h or 7d")
                }
                limit = SystemTime().now() + (.zero - age)
            }
            let (session, path) = try location.open(url, changing: true)
            let uploads = try UploadsCommand.uploads(session, path).filter { id == nil || $0.upload.text == id }
            if let id, uploads.isEmpty { throw CommandError("\(url) has no unfinished upload \(id)") }
            var unknown = 0
            for upload in uploads {
                if let limit {
                    guard let begun = upload.initiated else {
                        unknown += 1
                        continue
                    }
                    guard begun <= limit else { continue }
                }
                try session.answer { store async throws(ObjectStoreError) in
                    try await store.abortUpload(upload.key, upload.upload)
                }
                let begun = upload.initiated?.iso8601() ?? "-"
                Output.line(naming: ByteString("aborted  \(begun)  \(upload.upload.text)  ") + upload.key.bytes)
            }
            if unknown > 0 {
                Entry.say("pailfs: \(unknown) uploads were not aborted: the store does not return their age")
            }
        }
    }

    /// The uploads of the key `path` and of the keys below it, as a mount of it would show them. The store matches the text of a
    /// prefix, and lists others too: these are the result only where there are no uploads of the first kind and `orBeginning` is
    /// set.
    private static func uploads(
        _ session: ObjectStoreSession, _ path: ByteString, orBeginning: Bool = false
    ) throws(CommandError) -> [UploadInProgress] {
        guard !session.isAccount else {
            throw CommandError(
                "\(session.request.url) names no bucket; name one, since uploads are listed bucket by bucket")
        }
        guard session.capabilities.listUploads else {
            throw CommandError("the store of \(session.request.url) cannot list its unfinished uploads")
        }
        let uploads = try session.answer(inTime: false) { store async throws(ObjectStoreError) in
            do throws(ObjectStoreError) { return try await store.listUploads(prefix: path) } catch {
                // A policy with a condition on data/* does not allow a listing of "data".
                guard error.kind == .accessDenied, !path.isEmpty, !path.hasSuffix("/") else { throw error }
                return try await store.listUploads(prefix: path + "/")
            }
        }
        let meant = uploads.filter { isMeant($0.key.bytes, by: path) }
        return meant.isEmpty && orBeginning ? uploads.filter { $0.key.bytes.hasPrefix(path) } : meant
    }

    /// Whether a key is `path` or below it.
    static func isMeant(_ key: ByteString, by path: ByteString) -> Bool {
        path.isEmpty || key == path || key.hasPrefix(path.hasSuffix("/") ? path : path + "/")
    }
}
