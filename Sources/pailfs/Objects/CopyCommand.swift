import ArgumentParser
import Basics
import ObjectStorage

/// Copies files to objects, objects to files, and objects to objects.
struct CopyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cp", abstract: "Copies files and objects: into a bucket, out of it, or from one to another.",
        discussion: """
            Within a provider the store copies objects, with headers and metadata, and none of the bytes pass through this \
            machine. Between providers, and where a provider refuses to copy from one bucket to another, they pass through \
            it in pieces. A file keeps its time and mode.

            A copy that was interrupted is resumed when the same command is run again. "pailfs uploads list" shows \
            uploads that were interrupted.
            """)

    @Argument(
        help: ArgumentHelp(
            """
            Sources and the destination: scheme://bucket/key, a path, or - for standard input or output. In the last part \
            of a URL *, ? and [a-z] stand for other characters, which do not match a slash. If the destination is a \
            directory or ends in a slash, the copies go into it.
            """, valueName: "source ... destination"))
    var paths: [String]
    @OptionGroup var location: StoreOptions
    @Flag(name: [.customShort("r"), .long], help: "Copy directories, and all keys below URLs.")
    var recursive = false
    @Flag(name: [.customShort("L"), .long], help: "Copy the files that symbolic links point to.")
    var dereference = false
    @Flag(name: .short, help: "Fail if the destination exists.") var noClobber = false
    @Flag(help: "Leave out what is the same: as many bytes, and the same time or checksum.") var update = false
    @Flag(help: "Print what would be copied, and change nothing.") var dryRun = false
    @Option(name: .shortAndLong, help: ArgumentHelp("Files copied at the same time.", valueName: "number")) var jobs = 8
    @Option(
        help: ArgumentHelp(
            "Content-Type, Cache-Control, Content-Disposition, Content-Encoding, Content-Language, Expires, or metadata such "
                + "as x-amz-meta-NAME.",
            valueName: "name: value"))
    var header: [String] = []
    @Option(name: .customLong("class"), help: "Storage class of the copies. Default: the class of the source.")
    var storageClass: String?
    @Option(help: ArgumentHelp("ACL of the copies, such as public-read. Default: that of the option acl."))
    var acl: String?
    @Flag(name: [.customShort("q"), .long], help: "Do not show the progress on a terminal.") var quiet = false

    func validate() throws {
        guard paths.count > 1 else {
            throw ValidationError("write a source and a destination")
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
        try CopyRun(paths, options).run()
    }
}
