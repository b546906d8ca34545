import ArgumentParser

/// The process that keeps mounts for `keeper=PATH`.
struct KeepCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keep", abstract: "Keeps mounts alive while the processes that serve them are replaced.",
        discussion: """
            Mounts with keeper=PATH hand their connection to the kernel to this process. When all their own processes have \
            ended, programs wait until "pailfs mount" with the same bucket, mountpoint and options takes the mount back. The \
            process runs in the foreground until a signal ends it.
            """)

    @Argument(help: "The socket to make.") var path: String

    mutating func run() throws {
        guard !path.isEmpty else { throw CommandError("the path is an empty string; name a socket to make") }
        var keeper = try Keeper(at: MountRequest.absolute(path))
        keeper.run()
    }
}
