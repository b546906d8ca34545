import Basics
import FuseBridge
import Settings

/// `mount -o remount,...`, which mount(8) passes on with every option of the mount: options that can change while it is mounted
/// are changed, and the others must have their present values.
enum Remounting {
    private static let word = "remount"

    static func isAsked(_ options: [String]) -> Bool {
        options.contains { list in MountSettings.options(in: list).contains { $0.name == word } }
    }

    static func run(_ mountpoint: String, _ options: [String]) throws(CommandError) {
        let place = try MountPlace(mountpoint)
        guard case .status(let status) = try place.ask(.status, within: .seconds(30)) else {
            throw CommandError(
                "the process that serves \(mountpoint) does not return its status; see its log")
        }
        var changes: [String] = []
        var wantsReadOnly = false
        for (name, value) in options.flatMap(MountSettings.options(in:)) {
            switch name {
            case "ro": wantsReadOnly = true
            case "rw": wantsReadOnly = false
            case _ where OptionTable.liveNames.contains(name): changes.append(value.map { "\(name)=\($0)" } ?? name)
            // An option that the mount has already, as the kernel or fstab(5) names it.
            default: continue
            }
        }
        guard wantsReadOnly == (status.readOnly ?? false) else {
            let (now, then) = wantsReadOnly ? ("read-write", "ro") : ("read-only", "rw")
            throw CommandError(
                "\(place.mountpoint.path) is mounted \(now), which cannot change while it is mounted; unmount it, and mount it "
                    + "again with \(then)")
        }
        if !changes.isEmpty { _ = try place.ask(.set(options: changes), within: .seconds(30)) }
    }
}
