import Basics
import Glibc

/// What may keep root from mounting, mostly in a container, and the line for docker, podman and a pod that permits it.
enum MountPrivileges {
    /// Throws where mount(2) cannot succeed for root.
    static func check() throws(FuseError) {
        let device = open("/dev/fuse", O_RDWR | O_CLOEXEC)
        guard device >= 0 else { throw unopened(errno) }
        close(device)
        guard let status = readFile("/proc/self/status"), !hasSystemAdmin(status.description) else { return }
        throw FuseError("root lacks the capability CAP_SYS_ADMIN, without which it cannot mount; \(remedy)")
    }

    /// The end of messages about a device or a capability that a container lacks.
    static let remedy =
        "start the container with --cap-add SYS_ADMIN --device /dev/fuse (docker, podman) or securityContext: {privileged: true} "
        + "(a pod), or hand in a mounted descriptor (pailfs-mount(8), In containers)"

    private static func unopened(_ reason: Int32) -> FuseError {
        switch reason {
        case EPERM, EACCES: FuseError("root may not open /dev/fuse; \(remedy)")
        default:
            FuseError("/dev/fuse cannot be opened (\(text(ofErrno: reason))); load the kernel module (modprobe fuse)")
        }
    }

    /// Whether the text of /proc/self/status has CAP_SYS_ADMIN, bit 21, among the effective capabilities (capabilities(7)).
    static func hasSystemAdmin(_ status: String) -> Bool {
        guard let set = value("CapEff:", in: status).flatMap({ UInt64($0, radix: 16) }) else { return true }
        return set & (1 << 21) != 0
    }

    /// What on this machine can have denied a mount although the capability is there; nil where nothing is known.
    static var denial: String? {
        denial(
            profile: readFile("/proc/self/attr/current")?.description ?? "",
            status: readFile("/proc/self/status")?.description ?? "",
            userMap: readFile("/proc/self/uid_map")?.description ?? "")
    }

    /// The same from the texts of the process's attributes, status and map of user IDs in /proc.
    static func denial(profile: String, status: String, userMap: String) -> String? {
        var reasons: [String] = []
        let name = profile.split(whereSeparator: { $0.isWhitespace || $0 == "\0" }).first.map(String.init)
        if let name, name != "unconfined", profile.contains("(enforce)") {
            reasons.append(
                "the AppArmor profile \(name) may deny it: --security-opt apparmor=unconfined (docker, podman), "
                    + "securityContext: {appArmorProfile: {type: Unconfined}} (a pod)")
        }
        if value("Seccomp:", in: status) == "2" {
            reasons.append(
                "a seccomp filter may deny it: --security-opt seccomp=unconfined (docker, podman), "
                    + "securityContext: {seccompProfile: {type: Unconfined}} (a pod)")
        }
        if !userMap.isEmpty, userMap.split(whereSeparator: \.isWhitespace) != ["0", "0", "4294967295"] {
            reasons.append(
                "this user namespace may not own the mount namespace: start both together (unshare --user --mount, podman), or "
                    + "hostUsers: true (a pod)")
        }
        return reasons.isEmpty ? nil : reasons.joined(separator: "; ")
    }

    /// The word behind a name at the start of a line.
    private static func value(_ name: String, in text: String) -> String? {
        text.split(separator: "\n").first { $0.hasPrefix(name) }?.split(whereSeparator: \.isWhitespace).dropFirst()
            .first
            .map(String.init)
    }
}
