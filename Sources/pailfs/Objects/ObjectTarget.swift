import Basics
import ObjectStorage
import Settings

/// What a command on objects was given: a URL, or a path in a mount, which stands for the object that it shows.
struct ObjectTarget: Sendable {
    /// Of the whole bucket, or account.
    let request: MountRequest
    /// A key or a prefix in it: a slash at its end belongs to it.
    let path: ByteString
    /// nil for a URL.
    let mount: MountPlace?
    /// Whether it is a directory; nil for a URL, of which nobody knows.
    let isDirectory: Bool?
    /// What the mount has in front of its keys.
    private let prefix: ByteString

    /// `options` come after those of the mount. What the bucket does not have yet as programs see it is refused: of a
    /// directory only when `whole`. A `new` path need not be there; with a slash at its end it is a directory then. A link at its
    /// end is the object unless it is followed.
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
            // What is not there yet is a directory if a slash says so.
            let isNewDirectory = new && !place.isDirectory && text.hasSuffix("/")
            prefix = request.prefix
            path = prefix + place.key + (isNewDirectory ? "/" : "")
            request.prefix = ""
            (self.request, self.mount, isDirectory) = (request, mount, place.isDirectory)
            return
        }
        var request = try MountRequest(url: text, mountpoint: "", options: options, environment: Entry.environment)
        path = Self.path(ofURL: text)
        request.prefix = ""
        (self.request, mount, isDirectory, prefix) = (request, nil, nil, "")
    }

    /// What follows `scheme://bucket/`, byte for byte: of keys, unlike of what is mounted, no slash may be left out.
    static func path(ofURL text: String) -> ByteString {
        let parts = text.utf8.split(separator: UInt8(ascii: "/"), maxSplits: 3, omittingEmptySubsequences: false)
        return parts.count > 3 ? ByteString(parts[3]) : ""
    }

    /// Of a path in a mount with ro nothing is changed, unless the options say rw.
    func requireWritable() throws(CommandError) {
        guard let mount, request.settings.readOnly else { return }
        throw CommandError(
            "\(mount.path.isEmpty ? "this" : "\(mount.path)") is in a read-only mount (ro); "
                + "write scheme://bucket/key to change the bucket")
    }

    /// The mount that the path is in asks the store the next time; one that does not listen does within its ttl.
    /// `key` is that of the object, where it is not the path's.
    func noteChange(of key: ObjectKey? = nil) {
        guard let mount else { return }
        let key = (key?.bytes ?? path).dropFirst(prefix.count)
        _ = try? mount.ask(.changed(path: mount.path, key: key), within: .seconds(30))
    }
}
