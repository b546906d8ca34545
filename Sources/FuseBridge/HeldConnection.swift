package import Basics
import CFuse3
import CLinux
package import FileSystem
import Glibc
import Logging
package import Metadata

/// Records open files for the worker after this one.
extension HeldConnection: OpenFileLog {
    package func opened(_ handle: HandleID, of ino: InodeNumber) {
        linux_held_opened(memory, handle.rawValue, ino.rawValue)
    }

    package func closed(_ handle: HandleID) { linux_held_closed(memory, handle.rawValue) }

    package func listed(_ handle: HandleID, _ offset: UInt64, _ component: ByteString) {
        component.bytes.withUnsafeBytes {
            linux_held_listed(memory, handle.rawValue, offset, $0.baseAddress, $0.count)
        }
    }

    package func unlisted(_ handle: HandleID) { linux_held_unlisted(memory, handle.rawValue) }

    package func listing(of handle: HandleID) -> (offset: UInt64, component: ByteString)? {
        var offset = UInt64(0)
        let name = [UInt8](unsafeUninitializedCapacity: 260) { buffer, count in
            count = linux_held_listing(memory, handle.rawValue, &offset, buffer.baseAddress)
        }
        return name.isEmpty ? nil : (offset, ByteString(name))
    }
}

extension HeldConnection: BackingKernel {
    package var allowsBacking: Bool { linux_held_allows_backing(memory) != 0 }

    package func enter(_ file: File) throws(FileError) -> Int32 {
        let backing = linux_backing_open(file.rawDescriptor)
        guard backing > 0 else {
            throw FileError(errno: -backing, operation: "register with the kernel", path: file.path)
        }
        return backing
    }

    package func leave(_ backing: Int32) { _ = linux_backing_close(backing) }

    package func note(_ inode: BackedInode) -> Bool {
        linux_held_backed(memory, inode.ino.rawValue, UInt64(bitPattern: inode.file), inode.backing) != 0
    }

    package func forget(_ ino: InodeNumber) { linux_held_unbacked(memory, ino.rawValue) }

    package var backedInodes: [BackedInode] {
        var inodes: [BackedInode] = []
        var (slot, ino, file, backing) = (Int32(0), UInt64(0), UInt64(0), Int32(0))
        while true {
            let found = linux_held_backing(memory, slot, &ino, &file, &backing)
            guard found >= 0 else { return inodes }
            if found > 0 {
                let (number, inode) = (Int64(bitPattern: file), InodeNumber(rawValue: ino))
                inodes.append(BackedInode(ino: inode, file: number, backing: backing))
            }
            slot += 1
        }
    }
}

/// A connection to the kernel that a holder keeps while workers are replaced, as a worker sees it.
///
/// Owns nothing: the memory and the descriptors belong to the process, for its whole life. The worker that mounts passes its
/// `/dev/fuse` to the holder before anything is answered. Each later worker inherits it, makes libfuse believe that it has just
/// received the INIT of the first, and has the kernel repeat the requests that the dead worker read and did not answer. libfuse's
/// answer to INIT is caught on a socket that replaces the device meanwhile.
///
/// After a crash at any point the next worker can go on from the memory: `RequestLoop` records each request as it reads it,
/// before libfuse sees it, and `FuseRequest` removes the record once it is answered.
package struct HeldConnection: @unchecked Sendable {
    // Sendable: the memory stays mapped, and its fields change only as `linux_held` says.
    private let memory: UnsafeMutablePointer<linux_held>

    /// The descriptor numbers that a worker inherits.
    package enum Descriptor {
        package static let status: Int32 = 3
        package static let holder: Int32 = 4
        package static let memory: Int32 = 5
        package static let record: Int32 = 6
        package static let device: Int32 = 7
        /// The connection to a keeper, which this process only has open.
        package static let keeper: Int32 = 8
    }

    /// The connection whose holder started this process. Programs that this process starts do not inherit it.
    package init() throws(FuseError) {
        guard let memory = linux_held_map(Descriptor.memory) else {
            throw FuseError("the process was not started by the holder of a mount; use \"pailfs mount\"")
        }
        self.memory = memory
        for number in [Descriptor.holder, Descriptor.memory, Descriptor.record, Descriptor.device, Descriptor.keeper] {
            _ = fcntl(number, F_SETFD, FD_CLOEXEC)
        }
    }

    /// How many workers came before this one.
    package var generation: UInt32 { memory.pointee.generation }

    /// The files that programs had open when the worker before this one ended.
    package var openFiles: [(handle: HandleID, ino: InodeNumber)] {
        var files: [(HandleID, InodeNumber)] = []
        var (slot, handle, ino) = (Int32(0), UInt64(0), UInt64(0))
        while true {
            let found = linux_held_open_file(memory, slot, &handle, &ino)
            guard found >= 0 else { return files }
            if found > 0 { files.append((HandleID(rawValue: handle), InodeNumber(rawValue: ino))) }
            slot += 1
        }
    }

    /// Whether there is a mount that an earlier worker made; a holder starts a second worker only when there is.
    package var isTakenOver: Bool { generation > 0 }

    /// Path and device of that mount, from memory: the kernel would have to ask this very process.
    package var mountpoint: Mountpoint { Mountpoint(resolved: String(cString: linux_held_mountpoint(memory))) }
    var device: String { String(cString: linux_held_device(memory)) }

    /// Records from here on which requests of this connection are not answered.
    /// Requires: the session has a descriptor, and no request was read from it yet.
    func attach(_ descriptor: Int32) { linux_held_use(memory, descriptor) }

    /// Waits for the kernel's INIT and answers it; later workers repeat this answer. False when another server has answered INIT.
    /// Requires: nothing else uses the session yet.
    func greet(_ session: OpaquePointer) throws(FuseError) -> Bool {
        let descriptor = fuse_session_fd(session)
        var status = linux_held_receive_init(descriptor)
        if status == 0 { status = linux_held_divert(descriptor) }
        if status == 0 {
            processInit(session)
            status = linux_held_answer_init(descriptor)
        }
        if status == -EALREADY { return false }
        guard status != -ENODEV else { throw FuseError("the mount is gone already; mount again") }
        guard status == 0 else {
            throw FuseError("the kernel and libfuse cannot agree on a protocol: \(text(ofErrno: -status))")
        }
        return true
    }

    /// Memory of a connection without a holder: INIT of a connection that was handed in is received as with one.
    static func withoutHolder() throws(FuseError) -> HeldConnection {
        let file = linux_held_create()
        defer { if file >= 0 { close(file) } }
        guard file >= 0, let memory = linux_held_map(file) else { throw FuseError("there is no memory for the mount") }
        return HeldConnection(memory)
    }

    private init(_ memory: UnsafeMutablePointer<linux_held>) { self.memory = memory }

    /// Whether the answer to INIT has the kernel check permissions.
    var checksPermissions: Bool { linux_held_checks_permissions(memory) != 0 }

    /// Gives the connection of a new mount to the holder, with the record for which `pailfs unmount` waits.
    func handOver(_ descriptor: Int32, of mountpoint: Mountpoint, record: Int32) throws(FuseError) {
        linux_held_name(memory, mountpoint.mounted?.device ?? "", mountpoint.path)
        let status = linux_send_descriptors(Descriptor.holder, Self.mountedTag, descriptor, record)
        guard status == 0 else { throw FuseError("the holder of the mount is gone: \(text(ofErrno: -status))") }
    }

    /// Gives the holder of a mount that was taken back from a keeper the record of the mount.
    package func handOver(record: Int32) throws(FuseError) {
        let status = linux_send_descriptors(Descriptor.holder, Self.mountedTag, Descriptor.device, record)
        guard status == 0 else { throw FuseError("the holder of the mount is gone: \(text(ofErrno: -status))") }
    }

    /// Waits until the holder knows whether a keeper has the mount, and for six seconds at most.
    package func awaitKeeper() {
        for _ in 0..<6000 where linux_held_kept(memory) == 0 { usleep(1000) }
    }

    /// From now on replies of this process go nowhere; the next process carries the requests out.
    func endReplies() { linux_held_end() }

    /// Brings a new session to the state of the dead worker's.
    /// Requires: nothing else uses it yet.
    func replay(_ session: OpaquePointer) throws(FuseError) {
        guard memory.pointee.init_size > 0 else {
            throw FuseError("the worker before this one ended before the kernel had initialised the mount")
        }
        let descriptor = fuse_session_fd(session)
        var status = linux_held_divert(descriptor)
        if status == 0 {
            processInit(session)
            status = linux_held_compare_init(descriptor)
        }
        guard status >= 0 else {
            throw FuseError("the connection of the mount cannot be taken over: \(text(ofErrno: -status))")
        }
        guard status == 1 else {
            throw FuseError("this pailfs needs another protocol than the one that mounted; unmount, and mount again")
        }
    }

    private func processInit(_ session: OpaquePointer) {
        var request = fuse_buf()
        (request.size, request.mem) = (Int(memory.pointee.init_size), linux_held_init_request(memory))
        fuse_session_process_buf(session, &request)
    }

    /// Handles the requests that the dead worker had read: the kernel sends them again, or they fail with EIO.
    func repeatUnanswered(_ descriptor: Int32, logger: Logger) {
        let status = linux_held_resend(descriptor)
        if status == 0 { return logger.info("the kernel sends the unanswered requests again") }
        let refused = linux_held_refuse(memory, descriptor)
        logger.warning("requests of the worker before this one fail with EIO", metadata: ["requests": "\(refused)"])
    }

    /// The start of this worker is complete: a crash from here on is a new one, not a repetition of the last.
    func serves() { memory.pointee.is_serving = 1 }

    /// Has the holder close the connection, so that it ends with this process's own descriptor.
    func release() { _ = linux_send_descriptors(Descriptor.holder, Self.endedTag, -1, -1) }

    /// Whether the request that this thread has just read was given to a dead worker before.
    static var isRepeated: Bool { linux_held_is_repeated() != 0 }

    /// Whether the request that this thread has just read clears set-user-ID and set-group-ID bits.
    static var dropsPrivileges: Bool { linux_held_kills_privileges() != 0 }

    package static let mountedTag = CChar(UInt8(ascii: "M"))
    package static let endedTag = CChar(UInt8(ascii: "E"))
}
