import Basics
import FileSystem
import ObjectStorage
import Settings

/// The target of a command on objects: a URL, or a path in a mount, which stands for the object that it shows.
struct ObjectTarget: Sendable {
    /// The request of the whole bucket, or account.
    let request: MountRequest
    /// A key or a prefix in the bucket: a slash at its end belongs to it.
    let path: ByteString
    /// nil for a URL.
    let mount: MountPlace?
    /// Whether the path is a directory; nil for a URL, for which that is unknown.
    let isDirectory: Bool?
    /// The prefix of the mount's keys.
    private let prefix: ByteString
    /// Of the path's object, or of one below it.
    private let removal: UnsentRemoval?

    /// `options` come after those of the mount. A path with changes that the bucket does not have yet is refused; a directory
    /// only when `whole`. A `new` path need not exist; with a slash at its end it is a directory then. A symbolic link at the end
    /// of the path stands for its own object, unless it is followed.
    init(
        _ text: String, options: [String], whole: Bool = false, new: Bool = false, following: Bool = true
    ) throws(CommandError) {
        guard text.contains("://") else {
            let mount: MountPlace
            do throws(CommandError) { mount = try MountPlace(text, new: new, following: following) } catch {
                throw CommandError("\(error.message); or write scheme://bucket/key")
            }
            let place = try mount.locate(mount.path)
            guard place.dirtyFiles == 0 || place.isDirectory && !whole else {
                throw CommandError(
                    "\(text) has changes that are not stored; run \"pailfs flush --wait\" on it first")
            }
            var request = try place.request(options: options)
            // A path that does not exist yet is a directory if it ends with a slash.
            let isNewDirectory = new && !place.isDirectory && text.hasSuffix("/")
            prefix = request.prefix
            path = prefix + place.key + (isNewDirectory ? "/" : "")
            request.prefix = ""
            (self.request, self.mount, isDirectory) = (request, mount, place.isDirectory)
            removal = place.isDirectory && !whole ? nil : place.removal
            return
        }
        var request = try MountRequest(url: text, mountpoint: "", options: options, environment: Entry.environment)
        path = Self.path(ofURL: text)
        request.prefix = ""
        (self.request, mount, isDirectory, prefix) = (request, nil, nil, "")
        removal = nil
    }

    /// The part after `scheme://bucket/`, byte for byte: every slash of a key counts, unlike in a prefix to mount.
    static func path(ofURL text: String) -> ByteString {
        let parts = text.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 3, omittingEmptySubsequences: false)
        return parts.count > 3 ? ByteString(parts[3]) : ""
    }

    /// Refuses to change an object through a path in a mount with ro, unless the options say rw.
    func requireWritable() throws(CommandError) {
        guard let mount, request.settings.readOnly else { return }
        throw CommandError(
            "\(mount.path.isEmpty ? "this" : "\(mount.path)") is in a read-only mount (ro); "
                + "write scheme://bucket/key to change the bucket")
    }

    /// Refuses a command whose result the mount may delete later.
    func requireRemoved(_ text: String) throws(CommandError) {
        switch removal {
        case .open:
            throw CommandError(
                "\(text) has a file that was removed while a program has it open; its object is deleted when that program "
                    + "closes it, so close it first")
        case .refused:
            throw CommandError(
                "\(text) has a file that was removed, which the store has refused so far; \"pailfs status\" shows why")
        case nil: return
        }
    }

    /// Makes the mount that holds the path ask the store at its next use; a mount that does not answer does so within its ttl.
    /// `key` is that of the object, where it is not the path's.
    func noteChange(of key: ObjectKey? = nil) {
        guard let mount else { return }
        let key = (key?.bytes ?? path).dropFirst(prefix.count)
        _ = try? mount.ask(.changed(path: mount.path, key: key), within: .seconds(30))
    }
}
