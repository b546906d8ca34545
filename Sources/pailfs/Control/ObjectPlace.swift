import Basics
import FileSystem

/// Where an object of a mount is, and how the mount reaches it, so that a command uses the store as the mount does: with its
/// options and with the environment that its credentials come from. Sent to the user who mounted and to root only.
struct ObjectPlace: Sendable, Codable {
    var url: String
    var options: [String]
    /// The directory to which relative paths in the options refer.
    var directory: String
    var environment: [String: String]
    /// The key below the URL's prefix; with a slash at its end for a directory, empty for the mount's top.
    var key: ByteString
    var isDirectory: Bool
    /// Files at or below it whose present state the bucket does not have.
    var dirtyFiles: Int
    /// Of an object at or below it; newer than the version.
    var removal: UnsentRemoval?

    init(_ request: MountRequest, _ location: ObjectLocation) {
        (url, options, directory) = (request.url, request.optionLists, request.directory)
        environment = request.environment
        (key, isDirectory, dirtyFiles) = (location.key, location.isDirectory, location.dirtyFiles)
        removal = location.removal
    }

    /// The request that the mount was made with, and after its options `more`.
    func request(options more: [String]) throws(CommandError) -> MountRequest {
        try MountRequest(
            url: url, mountpoint: "", options: options + more, directory: directory, environment: environment)
    }
}
