import Basics
import CFuse3
import CLinux
import FileSystem
import Metadata

/// The table libfuse calls: unpacks C's arguments, which are libfuse's until the callback returns, and passes them on.
///
/// libfuse answers ENOSYS to operations that are absent here, and the kernel does not send them again: access (the kernel checks
/// by `default_permissions`), locks (kept by the kernel for this host), poll and bmap. The closures capture nothing and live
/// outside main.swift: there they would belong to the main actor and trap.
enum FuseCallbacks {
    static func table() -> fuse_lowlevel_ops {
        var table = fuse_lowlevel_ops()
        table.`init` = { _, connection in
            if let connection { KernelContract.negotiate(&connection.pointee) }
        }
        addNames(to: &table)
        addAttributes(to: &table)
        addFiles(to: &table)
        addDirectories(to: &table)
        return table
    }

    private static func addNames(to table: inout fuse_lowlevel_ops) {
        table.lookup = { request, parent, name in
            FuseBridge.of(request).lookup(FuseRequest(request, .lookup, parent), ByteString(name), in: .init(parent))
        }
        table.forget = { request, ino, count in
            FuseBridge.of(request).forget(FuseRequest(request, .forget, ino), .init(ino), count: count)
        }
        table.forget_multi = { request, count, forgotten in
            FuseBridge.of(request).forget(
                FuseRequest(request, .forget, 0), UnsafeBufferPointer(start: forgotten, count: count))
        }
        table.mknod = { request, parent, name, mode, _ in
            FuseBridge.of(request).makeNode(
                FuseRequest(request, .mknod, parent), ByteString(name), in: .init(parent), mode: mode)
        }
        table.mkdir = { request, parent, name, mode in
            FuseBridge.of(request).makeDirectory(
                FuseRequest(request, .mkdir, parent), ByteString(name), in: .init(parent), mode: mode)
        }
        table.symlink = { request, target, parent, name in
            FuseBridge.of(request).symlink(
                FuseRequest(request, .symlink, parent), ByteString(name), in: .init(parent), to: ByteString(target))
        }
        table.unlink = { request, parent, name in
            FuseBridge.of(request).unlink(FuseRequest(request, .unlink, parent), ByteString(name), in: .init(parent))
        }
        table.rmdir = { request, parent, name in
            FuseBridge.of(request).removeDirectory(
                FuseRequest(request, .rmdir, parent), ByteString(name), in: .init(parent))
        }
        table.rename = { request, parent, name, newParent, newName, flags in
            FuseBridge.of(request).rename(
                FuseRequest(request, .rename, parent), ByteString(name), in: .init(parent), to: ByteString(newName),
                in: .init(newParent), flags: flags)
        }
        // An object has one key: two names cannot share one object.
        table.link = { request, ino, _, _ in FuseRequest(request, .link, ino).refuse(EPERM) }
    }

    private static func addAttributes(to table: inout fuse_lowlevel_ops) {
        table.getattr = { request, ino, file in
            FuseBridge.of(request).attributes(
                FuseRequest(request, .getattr, ino), .init(ino), handle: file.map { HandleID($0) })
        }
        table.setattr = { request, ino, attributes, bits, file in
            guard let attributes else { return FuseRequest(request, .setattr, ino).refuse(EINVAL) }
            FuseBridge.of(request).setAttributes(
                FuseRequest(request, .setattr, ino), .init(ino), to: attributes.pointee, set: bits,
                handle: file.map { HandleID($0) })
        }
        table.readlink = { request, ino in
            FuseBridge.of(request).readLink(FuseRequest(request, .readlink, ino), .init(ino))
        }
        table.statfs = { request, ino in FuseBridge.of(request).statistics(FuseRequest(request, .statfs, ino)) }
        table.getxattr = { request, ino, name, size in
            FuseBridge.of(request).extendedAttribute(
                FuseRequest(request, .getxattr, ino), ByteString(name), of: .init(ino), size: size)
        }
        table.listxattr = { request, ino, size in
            FuseBridge.of(request).extendedAttributes(
                FuseRequest(request, .listxattr, ino), of: .init(ino), size: size)
        }
        table.setxattr = { request, ino, name, value, size, flags in
            FuseBridge.of(request).setExtendedAttribute(
                FuseRequest(request, .setxattr, ino), ByteString(name), of: .init(ino),
                to: ByteString(UnsafeRawBufferPointer(start: value, count: size)), flags: flags)
        }
        table.removexattr = { request, ino, name in
            FuseBridge.of(request).removeExtendedAttribute(
                FuseRequest(request, .removexattr, ino), ByteString(name), of: .init(ino))
        }
        table.ioctl = { request, ino, _, _, _, _, _, _, _ in FuseRequest(request, .ioctl, ino).refuse(ENOTTY) }
    }

    private static func addFiles(to table: inout fuse_lowlevel_ops) {
        table.open = { request, ino, file in
            FuseBridge.of(request).open(FuseRequest(request, .open, ino), .init(ino), flags: flags(of: file))
        }
        table.create = { request, parent, name, mode, file in
            FuseBridge.of(request).create(
                FuseRequest(request, .create, parent), ByteString(name), in: .init(parent), mode: mode,
                flags: flags(of: file))
        }
        table.read = { request, ino, size, offset, file in
            FuseBridge.of(request).read(
                FuseRequest(request, .read, ino), .init(ino), handle: HandleID(file), at: Int64(offset), count: size)
        }
        table.write = { request, ino, bytes, size, offset, file in
            let bytes = UnsafeRawBufferPointer(start: bytes, count: size)
            let bridge = FuseBridge.of(request)
            let appends = flags(of: file) & O_APPEND != 0 && !isFromPageCache(file)
            if HeldConnection.isRepeated, appends {
                bridge.appendAgain(
                    FuseRequest(request, .write, ino), .init(ino), handle: HandleID(file), at: Int64(offset),
                    bytes: [UInt8](bytes))
            } else {
                bridge.write(
                    FuseRequest(request, .write, ino), .init(ino), handle: HandleID(file),
                    at: appends ? nil : Int64(offset), bytes: bytes.bytes)
            }
        }
        table.flush = { request, ino, file in
            FuseBridge.of(request).flush(FuseRequest(request, .flush, ino), .init(ino), handle: HandleID(file))
        }
        table.release = { request, ino, file in
            FuseBridge.of(request).release(FuseRequest(request, .release, ino), .init(ino), handle: HandleID(file))
        }
        table.fsync = { request, ino, dataOnly, file in
            FuseBridge.of(request).sync(
                FuseRequest(request, .fsync, ino), .init(ino), handle: HandleID(file), dataOnly: dataOnly != 0)
        }
        table.fallocate = { request, ino, mode, offset, length, file in
            FuseBridge.of(request).allocate(
                FuseRequest(request, .fallocate, ino), .init(ino), handle: HandleID(file), at: Int64(offset),
                length: Int64(length), mode: mode)
        }
        table.copy_file_range = { request, ino, offset, file, target, targetOffset, targetFile, count, _ in
            FuseBridge.of(request).copyRange(
                FuseRequest(request, .copyFileRange, ino),
                from: FileRange(ino: .init(ino), handle: HandleID(file), offset: Int64(offset)),
                to: FileRange(ino: .init(target), handle: HandleID(targetFile), offset: Int64(targetOffset)),
                count: Int64(clamping: count))
        }
        table.lseek = { request, ino, offset, whence, file in
            FuseBridge.of(request).seek(
                FuseRequest(request, .lseek, ino), .init(ino), handle: HandleID(file), from: Int64(offset),
                whence: whence)
        }
    }

    private static func addDirectories(to table: inout fuse_lowlevel_ops) {
        table.opendir = { request, ino, _ in
            FuseBridge.of(request).openDirectory(FuseRequest(request, .opendir, ino), .init(ino))
        }
        table.readdir = { request, ino, size, offset, file in
            FuseBridge.of(request).readDirectory(
                FuseRequest(request, .readdir, ino), .init(ino), handle: HandleID(file),
                from: UInt64(bitPattern: Int64(offset)), size: size, attributes: false)
        }
        table.readdirplus = { request, ino, size, offset, file in
            FuseBridge.of(request).readDirectory(
                FuseRequest(request, .readdirplus, ino), .init(ino), handle: HandleID(file),
                from: UInt64(bitPattern: Int64(offset)), size: size, attributes: true)
        }
        table.releasedir = { request, ino, file in
            FuseBridge.of(request).releaseDirectory(
                FuseRequest(request, .releasedir, ino), .init(ino), handle: HandleID(file))
        }
        table.fsyncdir = { request, ino, _, _ in
            FuseBridge.of(request).syncDirectory(FuseRequest(request, .fsyncdir, ino), .init(ino))
        }
    }
}

private func flags(of file: UnsafeMutablePointer<fuse_file_info>?) -> Int32 {
    guard let file else { fatalError("libfuse passed no file") }
    return file.pointee.flags
}

/// Whether the kernel writes back pages, for which it uses any open descriptor of the file.
private func isFromPageCache(_ file: UnsafeMutablePointer<fuse_file_info>?) -> Bool {
    file?.pointee.writepage == 1
}

extension InodeNumber {
    fileprivate init(_ ino: fuse_ino_t) { self.init(rawValue: ino) }
}

extension HandleID {
    fileprivate init(_ file: UnsafeMutablePointer<fuse_file_info>?) {
        guard let file else { fatalError("libfuse passed no file") }
        self.init(rawValue: file.pointee.fh)
    }
}
