import Basics
import CFuse3
import CLinux
import FileSystem
import Metadata

// Requests about what an inode is: status, link target, extended attributes, the file system's figures.

extension FuseBridge {
    func attributes(_ request: consuming FuseRequest, _ ino: InodeNumber, handle: HandleID?) {
        answer(request, fileSystem.attributes(ino, handle: handle)) { request, reply in request.attributes(reply) }
    }

    func setAttributes(
        _ request: consuming FuseRequest, _ ino: InodeNumber, to attributes: stat, set bits: Int32, handle: HandleID?
    ) {
        let change = AttributeChange(attributes, set: bits, time: time)
        if change.size != nil { cuts.note(ino) }
        answer(request, fileSystem.setAttributes(ino, to: change, handle: handle)) { [cuts] request, reply in
            if change.size != nil { cuts.note(ino) }
            request.attributes(reply)
        }
    }

    func readLink(_ request: consuming FuseRequest, _ ino: InodeNumber) {
        answer(request, fileSystem.readLink(ino)) { request, target in request.bytes(of: target) }
    }

    func statistics(_ request: consuming FuseRequest) {
        answer(request, fileSystem.statistics()) { request, figures in request.statistics(figures) }
    }

    /// `size` 0 asks for the value's size (getxattr(2)).
    func extendedAttribute(_ request: consuming FuseRequest, _ name: ByteString, of ino: InodeNumber, size: Int) {
        guard Self.isWhole(name) else { return request.refuse(EINVAL) }
        answer(request, fileSystem.extendedAttribute(name, of: ino)) { request, value in
            Self.reply(request, with: value, to: size)
        }
    }

    /// Each name ends with NUL; `size` 0 asks for the list's size (listxattr(2)).
    func extendedAttributes(_ request: consuming FuseRequest, of ino: InodeNumber, size: Int) {
        answer(request, fileSystem.extendedAttributes(of: ino, room: size)) { request, names in
            let list = ByteString(names.flatMap { $0.bytes + [0] })
            Self.reply(request, with: list, to: size)
        }
    }

    /// `flags` are setxattr(2)'s.
    func setExtendedAttribute(
        _ request: consuming FuseRequest, _ name: ByteString, of ino: InodeNumber, to value: ByteString, flags: Int32
    ) {
        guard Self.isWhole(name) else { return request.refuse(EINVAL) }
        let (create, replace): (Int32, Int32) = (1, 2)
        let mode: ExtendedAttributeMode
        switch flags {
        case 0: mode = .createOrReplace
        case create: mode = .create
        case replace: mode = .replace
        default: return request.refuse(EINVAL)
        }
        let outcome = fileSystem.setExtendedAttribute(name, of: ino, to: value, mode: mode)
            .repeated(HeldConnection.isRepeated) { $0.kind == .exists ? () : nil }
        answer(request, outcome) { request, _ in
            request.succeed()
        }
    }

    func removeExtendedAttribute(_ request: consuming FuseRequest, _ name: ByteString, of ino: InodeNumber) {
        guard Self.isWhole(name) else { return request.refuse(EINVAL) }
        let outcome = fileSystem.removeExtendedAttribute(name, of: ino)
            .repeated(HeldConnection.isRepeated) { $0.kind == .noData ? () : nil }
        answer(request, outcome) { request, _ in request.succeed() }
    }

    /// Local file systems take no attribute whose name is the name space alone (`xattr_resolve_name` in Linux's fs/xattr.c).
    private static func isWhole(_ name: ByteString) -> Bool { name != "user." }

    private static func reply(_ request: consuming FuseRequest, with value: ByteString, to size: Int) {
        if size == 0 {
            request.size(value.count)
        } else if size < value.count {
            request.refuse(ERANGE)
        } else {
            request.bytes(of: value)
        }
    }
}
