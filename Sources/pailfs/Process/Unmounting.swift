import Basics
import FuseBridge

/// `pailfs unmount`: unmounts unless fusermount3(1) already has, and waits until the mount's process has stored the remaining
/// files.
enum Unmounting {
    static func run(_ path: String, lazily: Bool) throws(CommandError) {
        if HandedConnection.isName(path) { throw try notOurs(MountPlace(path)) }
        let (mountpoint, records): (Mountpoint, [(record: MountRecord, user: UInt32)])
        do throws(FuseError) {
            mountpoint = try Mountpoint(existing: path)
            let mounted = mountpoint.mounted
            let users = mounted.map { [$0.owner ?? LocalFileStatus.ourUser] } ?? MountRecord.readableUsers
            // Opens the records before the unmount: a process that ends quickly afterwards deletes its record.
            let all = users.flatMap { user in
                MountRecord.all(of: mountpoint, user: user).map { (record: $0, user: user) }
            }
            if let mounted {
                guard mounted.type == "fuse.pailfs" else {
                    throw FuseError(
                        "\(mountpoint.path) is a mount of \(mounted.type), not of pailfs; use umount(8)")
                }
                // A killed process leaves its record. Another process then has the mount from a keeper, and its record tells the end.
                let living = all.filter(\.record.isAlive)
                records = living.isEmpty ? all : living
                try mountpoint.unmount(lazily: lazily)
            } else {
                // fusermount3(1) does not wait until the remaining files are stored.
                records = all.filter(\.record.isAlive)
                guard !records.isEmpty else {
                    throw FuseError(
                        "nothing is mounted on \(mountpoint.path); \"findmnt -t fuse.pailfs\" lists the mounts")
                }
            }
            // Where another mount namespace has a copy of the mount, the kernel keeps the connection, and the process would serve it.
            for (record, user) in records { record.endProcess(of: user) }
        } catch { throw CommandError(error) }
        var unstored: [String] = []
        var isUnknown = false
        for (record, _) in records {
            // The kernel may not have ended a killed process, and its record is locked and says nothing.
            let isKilled = records.count > 1 && record.process.map(MountRecord.isGone) == true
            let rest = record.waitForEnd { files, bytes in
                let left = bytes > 0 ? ", \(ByteSize.format(bytes)) to send" : ""
                Entry.say("pailfs: \(StatusText.count(files, "file")) not stored yet\(left); waiting for the store")
            }
            guard let rest else {
                isUnknown = isUnknown || !isKilled
                continue
            }
            unstored += rest
        }
        Entry.sayUnstored(unstored)
        if !unstored.isEmpty {
            throw CommandError(
                "\(mountpoint.path) is unmounted, and the bucket lacks \(StatusText.count(unstored.count, "file")) of it; "
                    + "the next mount uploads the acknowledged ones, and \"pailfs recover list\" shows the others")
        }
        if records.isEmpty {
            throw CommandError(
                "\(mountpoint.path) is unmounted; its process cannot be found from here (it was mounted with another "
                    + "XDG_RUNTIME_DIR, or moved) and may still store; see the log")
        }
        if isUnknown {
            throw CommandError(
                "\(mountpoint.path) is unmounted, but its process did not say whether everything is stored; see the log"
            )
        }
    }

    /// The error for a mount that another process has made.
    private static func notOurs(_ place: MountPlace) -> CommandError {
        let process = MountRecord.all(of: place.mountpoint).first(where: \.isAlive)?.process
        let ending = process.map { ", or end process \($0) with SIGTERM (kill \($0))" } ?? ""
        return CommandError(
            "\(place.mountpoint.path) was mounted by the process that handed it in, which has to unmount it\(ending); pailfs "
                + "then stores the remaining files and ends")
    }
}
