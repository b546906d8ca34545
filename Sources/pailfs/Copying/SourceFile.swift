import Basics
import FileSystem
import Glibc
import Metadata
import ObjectStorage

/// A local file that is uploaded: open, with the status that it had then. Any thread may read.
///
/// Every read compares the status with the first one, so that an object never has bytes from before and after a change.
struct SourceFile: Sendable {
    let file: File
    let status: LocalFileStatus

    var size: Int64 { status.size }

    /// Opens a regular file. A symbolic link at the end of the path is followed if `followsLinks`.
    init(_ path: String, followsLinks: Bool) throws(ObjectStoreError) {
        do throws(FileError) {
            // Without this, the open of a FIFO would wait for a writer.
            let kind = try LocalFileStatus(of: followsLinks ? File.resolved(path) ?? path : path)?.kind
            guard kind == .file else {
                throw FileError(
                    errno: kind == nil ? ENOENT : kind == .directory ? EISDIR : EINVAL, operation: "copy", path: path)
            }
            file = try File(path, followsLinks: followsLinks)
            status = try LocalFileStatus(of: file)
        } catch { throw ObjectStoreError(error, .put) }
        guard status.kind == .file else {
            throw ObjectStoreError(ofFile: "\(path) is not a regular file", errno: EINVAL, .put)
        }
        if size == 0 { try requireEmpty() }
    }

    /// Throws: when the file has bytes, though the kernel reports none, as in /proc.
    private func requireEmpty() throws(ObjectStoreError) {
        let bytes: [UInt8]
        do throws(FileError) { bytes = try file.read(atMost: 1) } catch { throw ObjectStoreError(error, .put) }
        guard !bytes.isEmpty else { return }
        do throws(ByteTransferError) { try requireUnchanged() } catch {
            throw ObjectStoreError(ofFile: error.reason, errno: error.errno, .put)
        }
        throw ObjectStoreError(
            ofFile: "the kernel reports no length for \(file.path); copy from - and redirect standard input from it",
            errno: EINVAL, .put)
    }

    /// Throws: when the file has changed since it was opened.
    func requireUnchanged() throws(ByteTransferError) {
        let now: LocalFileStatus
        do throws(FileError) { now = try LocalFileStatus(of: file) } catch { throw ByteTransferError(error) }
        guard now.size == status.size, now.modified == status.modified, now.changed == status.changed else {
            throw ByteTransferError(
                errno: EAGAIN, reason: "\(file.path) changed while it was copied; copy it again when it is complete")
        }
    }

    /// A range of the file as a body.
    func body(_ range: ByteRange) -> any ByteSource { Body(source: self, bytes: FileSource(file, range)) }

    private struct Body: ByteSource {
        let source: SourceFile
        let bytes: FileSource

        var count: Int64 { bytes.count }

        func read(at offset: Int64, into output: inout OutputRawSpan) throws(ByteTransferError) {
            try bytes.read(at: offset, into: &output)
            try source.requireUnchanged()
        }
    }

    /// Identifies this state of the file, for the journal.
    var identity: String {
        "\(status.identity.device):\(status.identity.inode):\(status.size):\(AttributeCodec.text(status.modified)):"
            + AttributeCodec.text(status.changed)
    }

    /// The headers of the object: mode and time as a mount stores them, and those that belong to the name. The owner is left
    /// out: another machine's numbers mean other users.
    func metadata(at key: ObjectKey, _ named: NamedHeaders) -> ObjectMetadata {
        let attributes = Attributes(
            kind: .file, size: size, mode: status.permissions, mtime: status.modified, ctime: status.changed)
        return AttributeCodec.encode(attributes, over: named.completed(ObjectMetadata(), at: key))
    }
}
