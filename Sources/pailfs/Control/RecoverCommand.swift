import ArgumentParser
import Basics
import FoundationEssentials
import Glibc

/// Files that were being written when a process died, and were not acknowledged.
struct RecoverCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "recover",
        abstract: "Lists, saves, uploads or discards files that could not be stored.",
        subcommands: [List.self, Save.self, Commit.self, Discard.self], defaultSubcommand: List.self)

    /// The place of the files, the same for all subcommands.
    struct Place: ParsableArguments {
        @Argument(
            help:
                "A path in a mount, the URL of a bucket as it was mounted, or the state or cache directory of one.")
        var place: String
        @Option(
            name: [.customShort("o", allowingJoined: true)],
            help: ArgumentHelp("Options, as for mount; with a URL.", valueName: "name=value,..."))
        var options: [String] = []

        /// Runs `body` at the place. Other acknowledged files are stored at the end, even after an error.
        func use(_ body: (RecoveryPlace) throws -> Void) throws {
            let place = try RecoveryPlace(place, options: options)
            do { try body(place) } catch {
                try? place.finish()
                throw error
            }
            try place.finish()
        }
    }

    /// The files that the command is given.
    struct Choice: ParsableArguments {
        @Argument(help: "Keys or numbers, as list shows them; @2 is always a number.") var names: [String] = []
        @Flag(help: "All files.") var all = false

        func validate() throws {
            guard names.isEmpty == all else {
                throw ValidationError("name files as \"pailfs recover list\" shows them, or use --all")
            }
        }

        func files(of place: RecoveryPlace) throws(CommandError) -> [RecoverableLine] {
            let files = try place.list()
            if all { return files }
            var chosen: [RecoverableLine] = []
            for name in names {
                let file = try Self.file(name, of: files)
                if !chosen.contains(where: { $0.number == file.number }) { chosen.append(file) }
            }
            return chosen
        }

        /// The one file whose key or number `name` is; `@` in front makes it a number. Keys are compared as bytes: as text, two
        /// spellings of an accent are equal.
        static func file(_ name: String, of files: [RecoverableLine]) throws(CommandError) -> RecoverableLine {
            // U+FFFD replaces bytes that are not UTF-8, in a key and on the command line.
            guard !name.unicodeScalars.contains("\u{FFFD}") else {
                throw CommandError("\(name) is not valid UTF-8; name the file by its number, such as @2")
            }
            let bytes = ByteString(name)
            let digits = bytes.dropFirst(1)
            let isNumber =
                bytes.first == UInt8(ascii: "@") && !digits.isEmpty
                && digits.bytes.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
            let matching = files.filter { file in
                let number = ByteString("\(file.number)")
                return isNumber ? number == digits : number == bytes || ByteString(file.key) == bytes
            }
            guard let file = matching.first else {
                throw CommandError(
                    "there is no file \(name) to recover; \"pailfs recover list\" shows the files")
            }
            guard matching.count == 1 else {
                let numbers = matching.map { "@\($0.number)" }.joined(separator: " or ")
                throw CommandError("\(name) means \(matching.count) files; name one by its number, such as \(numbers)")
            }
            return file
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lists files: key, size, time, and where their bytes are.")
        @OptionGroup var place: Place
        @Flag(help: "Print JSON.") var json = false

        private struct Document: Codable {
            var version = 1
            var files: [RecoverableLine]
        }

        mutating func run() throws {
            let json = json
            try place.use { place in
                let files = try place.list()
                guard json else {
                    for line in files.flatMap(\.lines) { Output.say(line) }
                    return
                }
                print(try Output.json(Document(files: files)))
            }
        }
    }

    struct Save: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Copies files into a directory, under their keys; they stay recoverable.")
        @Argument(help: "A directory; made if missing.") var directory: String
        @OptionGroup var place: Place
        @Argument(help: "Keys or numbers, as list shows them; @2 is always a number. Default: all files.")
        var names: [String] = []
        @Flag(help: "Include files that a power cut may have damaged.") var doubtful = false
        @Flag(help: "Include files with lost bytes; zeros replace these.") var partial = false

        mutating func run() throws {
            var choice = Choice()
            (choice.names, choice.all) = (names, names.isEmpty)
            let base = MountRequest.absolute(directory)
            let (chosen, doubtful, partial) = (choice, doubtful, partial)
            try place.use { place in
                try RecoverCommand.each(try chosen.files(of: place), "saved") { file throws(CommandError) in
                    let target = try file.target(below: base)
                    let answer = try place.act(
                        .save(file: file.number, path: target, evenIfDoubtful: doubtful, evenIfPartial: partial))
                    var line = "\(file.key): \(target)"
                    if case .partlySaved(let missing) = answer {
                        line += " (\(missing) missing, zeros are in their place)"
                    }
                    Output.say(line)
                }
            }
        }
    }

    struct Commit: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Uploads files, unless another host has changed the object since.")
        @OptionGroup var place: Place
        @OptionGroup var choice: Choice
        @Flag(help: "Include files that a power cut may have damaged.") var doubtful = false

        mutating func run() throws {
            let (choice, doubtful) = (choice, doubtful)
            try place.use { place in
                try RecoverCommand.each(try choice.files(of: place), "stored") { file throws(CommandError) in
                    try place.act(.commit(file: file.number, evenIfDoubtful: doubtful))
                    Output.say("\(file.key): stored")
                }
            }
        }
    }

    struct Discard: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Deletes files for good.")
        @OptionGroup var place: Place
        @OptionGroup var choice: Choice

        mutating func run() throws {
            let choice = choice
            try place.use { place in
                try RecoverCommand.each(try choice.files(of: place), "discarded") { file throws(CommandError) in
                    try place.act(.discard(file: file.number))
                    Output.say("\(file.key): discarded")
                }
            }
        }
    }

    /// Acts on one file after the other; a failure is reported, and the others are tried all the same.
    private static func each(
        _ files: [RecoverableLine], _ done: String,
        _ act: (RecoverableLine) throws(CommandError) -> Void
    ) throws {
        var failures = 0
        for file in files {
            do throws(CommandError) { try act(file) } catch {
                failures += 1
                Entry.say("pailfs: not \(done): \(file.key) (\(error.message))")
            }
        }
        if failures > 0 {
            throw CommandError(
                "\(failures) of \(StatusText.count(files.count, "file")) could not be \(done)")
        }
    }
}
