import Basics
import FileSystem

/// What a mount tells of an object in it, so that a command reaches the store as the mount does: with its options and with
/// the environment that its credentials come from. It goes to the user who mounted and to root, and nowhere else.
struct ObjectPlace: Sendable, Codable {
    var url: String
    var options: [String]
    /// Where relative paths in the options start.
    var directory: String
    var environment: [String: String]
    /// Below the URL's prefix; with a slash at its end for a directory, empty for the mount's top.
    var key: ByteString
    var isDirectory: Bool
    /// Files at or below it that the bucket does not have as programs see them.
    var dirtyFiles: Int

    init(_ request: MountRequest, _ location: ObjectLocation) {
        (url, options, directory) = (request.url, request.optionLists, request.directory)
        environment = request.environment
        (key, isDirectory, dirtyFiles) = (location.key, location.isDirectory, location.dirtyFiles)
    }

    /// What the mount was made with, and after its options `more`.
    func request(options more: [String]) throws(CommandError) -> MountRequest {
        try MountRequest(
            url: url, mountpoint: "", options: options + more, directory: directory, environment: environment)
    }
}
