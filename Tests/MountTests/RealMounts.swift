import Foundation
import Testing

/// Kernel mounts of the built program. One at a time: they measure memory, count requests and have deadlines.
@Suite(
    .serialized,
    .enabled(if: FileManager.default.fileExists(atPath: "/dev/fuse"), "this machine has no /dev/fuse"))
enum RealMounts {}

/// What a test may need that not every machine gives.
enum Machine {
    /// Mounting a tmpfs, hiding a device.
    static let isRoot = geteuid() == 0
}
