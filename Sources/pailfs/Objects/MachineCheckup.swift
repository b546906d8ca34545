import Basics
import FuseBridge
import Glibc
import Settings

/// What a mount needs of this machine.
struct MachineCheckup {
    private let request: MountRequest

    init(_ request: MountRequest) { self.request = request }

    func run(_ report: DoctorReport) {
        report.check("kernel and fuse") { () throws(CommandError) in
            do throws(FuseError) { try Mountpoint.checkMachine(allowOther: request.settings.allowOther) } catch {
                throw CommandError(error)
            }
            return nil
        }
        report.check("cache directory") { () throws(CommandError) in
            guard let parent = CacheDirectory.parent(of: request) else { throw CacheDirectory.noParent }
            // Until it is made what counts is where it will be.
            let place = CacheDirectory.nearest(to: parent)
            guard access(place, W_OK | X_OK) == 0 else {
                throw CommandError("\(place) cannot be written; set cache-dir to another directory")
            }
            let free: Int64
            do { free = try Directory.space(at: place).free } catch {
                throw CommandError("\(error); set cache-dir to another directory")
            }
            if let lack = CacheDirectory.lack(of: free, at: parent, request.settings) { throw lack }
            let size = request.settings.cacheSize
            return "\(parent), \(ByteSize.format(free)) free, cache-size \(ByteSize.format(size))"
        }
    }
}
