import Foundation
import Testing

/// Kernel mounts of the built program, several at a time: each test has a world of its own, and mostly waits.
@Suite(.enabled(if: Machine.hasFuse, "this machine has no /dev/fuse"))
enum RealMounts {}

/// Those that need the machine for themselves: they count requests, bound times, or make a mount namespace, whose copies of
/// all mounts there are keep those alive.
@Suite(.serialized, .enabled(if: Machine.hasFuse, "this machine has no /dev/fuse"))
enum RealMountsAlone {}

/// What a test may need that not every machine gives.
enum Machine {
    static let hasFuse = FileManager.default.fileExists(atPath: "/dev/fuse")
    /// Mounting a tmpfs, hiding a device.
    static let isRoot = geteuid() == 0
}
