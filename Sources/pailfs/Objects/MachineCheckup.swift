import Basics
import FuseBridge
import Glibc
import Settings

/// Checks of this machine.
struct MachineCheckup {
    private let request: MountRequest

    init(_ request: MountRequest) { self.request = request }

    func run(_ report: DoctorReport) {
        report.check("kernel and fuse") { () throws(CommandError) in
            do throws(FuseError) { try Mountpoint.checkMachine(allowOther: request.settings.admitsOthers) } catch {
                throw CommandError(error)
            }
            return nil
        }
        let parents: (state: String, cache: String)
        do throws(CommandError) { parents = try DirectoryPair.parents(request.settings, request.environment) } catch {
            report.check("cache directory") { () throws(CommandError) -> String? in throw error }
            return
        }
        check(parents.cache, "cache", report)
        if parents.state != parents.cache { check(parents.state, "state", report) }
    }

    private func check(_ parent: String, _ kind: String, _ report: DoctorReport) {
        report.check("\(kind) directory") { () throws(CommandError) in
            // A directory that does not exist yet is checked at the nearest existing directory above it.
            let place = LocalDirectories.nearest(to: parent)
            guard access(place, W_OK | X_OK) == 0 else {
                throw CommandError("\(place) cannot be written; set \(kind)-dir to another directory")
            }
            let free: Int64
            do { free = try Directory.space(at: place).free } catch {
                throw CommandError("\(error); set \(kind)-dir to another directory")
            }
            if let lack = LocalDirectories.lack(of: free, at: parent, request.settings) { throw lack }
            let size = request.settings.cacheSize
            return "\(parent), \(ByteSize.format(free)) free, cache-size \(ByteSize.format(size))"
        }
    }
}
