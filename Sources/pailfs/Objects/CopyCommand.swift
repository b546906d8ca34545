import ArgumentParser
import Basics
import ObjectStorage

/// Copies files to objects, objects to files, and objects to objects.
struct CopyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cp", abstract: "Copies files and objects into a bucket, out of it, or between two.")

    @Argument(
        help: ArgumentHelp(
            "URLs, paths, or - for standard input or output.", valueName: "source ... destination"))
    var paths: [String]
    @OptionGroup var location: StoreOptions
    @Flag(name: [.customShort("r"), .long], help: "Copy directories, and all keys below URLs.")
    var recursive = false
    @Flag(name: [.customShort("L"), .long], help: "Copy the files that symbolic links point to.")
    var dereference = false
    @Flag(name: .short, help: "Fail if the destination exists.") var noClobber = false
    @Flag(help: "Leave out what is the same already.") var update = false
    @Flag(help: "Print what would be copied, and change nothing.") var dryRun = false
    @Option(name: .shortAndLong, help: ArgumentHelp("Files copied at the same time.", valueName: "number")) var jobs = 8
    @Option(help: ArgumentHelp("A header or metadata of the copies.", valueName: "name: value"))
    var header: [String] = []
    @Option(name: .customLong("class"), help: "Storage class of the copies.") var storageClass: String?
    @Option(help: "ACL of the copies, such as public-read.") var acl: String?
    @Option(help: ArgumentHelp("Copy this version of the source.", valueName: "ID")) var version: String?
    @Flag(name: [.customShort("q"), .long], help: "Do not show the progress on a terminal.") var quiet = false

    func validate() throws {
        guard paths.count > 1 else {
            throw ValidationError("write a source and a destination")
        }
        if version != nil {
            guard paths.count == 2, !recursive, !update else {
                throw ValidationError("--version names a version of one source; leave out -r and --update")
            }
        }
        guard (1...256).contains(jobs) else { throw ValidationError("--jobs must be a number from 1 to 256") }
    }

    mutating func run() throws {
        var options = CopyRun.Options()
        options.storeOptions = location.options + (acl.map { ["acl=\($0)"] } ?? [])
        options.rules = CopyRules(
            headers: try header.map(HeaderChange.init), storageClass: storageClass, isExclusive: noClobber,
            updates: update, isDry: dryRun, followsLinks: dereference)
        (options.isRecursive, options.jobs, options.isQuiet, options.setsACL) = (recursive, jobs, quiet, acl != nil)
        options.version = version
        try CopyRun(paths, options).run()
    }
}
