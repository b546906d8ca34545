import ArgumentParser
import Basics

struct FlushCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "flush", abstract: "Uploads what programs have written at or below a path.")

    @Argument(help: "A file or directory in a mount.") var path: String
    @Flag(help: "Wait until everything is stored; list files that could not be.")
    var wait = false

    mutating func run() throws {
        let place = try MountPlace(path)
        let request = ControlRequest.flush(path: place.path, waits: wait)
        guard case .flushed(let result) = try place.ask(request, within: wait ? nil : .seconds(30)) else { return }
        for file in result.unstored { Entry.say("pailfs: not stored: \(file.path) (\(file.reason))") }
        if result.unstoredFiles > 0 {
            throw CommandError("\(StatusText.count(result.unstoredFiles, "file")) of \(path) could not be stored")
        }
    }
}
