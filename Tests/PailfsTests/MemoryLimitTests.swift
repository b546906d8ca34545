import Testing

@testable import pailfs

@Suite struct MemoryLimitTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        let files: [String: String]
        let bytes: Int64?
        var testDescription: String { name }
    }

    @Test(arguments: [
        Row(name: "no control groups", files: [:], bytes: nil),
        Row(name: "version 2, no limit", files: ["/sys/fs/cgroup/memory.max": "max\n"], bytes: nil),
        Row(name: "version 2, a container", files: ["/sys/fs/cgroup/memory.max": "268435456\n"], bytes: 256 << 20),
        Row(
            name: "version 2, a service in a slice",
            files: [
                "/proc/self/cgroup": "0::/system.slice/pailfs.service\n",
                "/sys/fs/cgroup/system.slice/pailfs.service/memory.max": "max\n",
                "/sys/fs/cgroup/system.slice/memory.max": "134217728\n",
            ], bytes: 128 << 20),
        Row(
            name: "version 1, no limit",
            files: [
                "/proc/self/cgroup": "4:memory:/\n0::/\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            ], bytes: nil),
        Row(
            name: "version 1, a group",
            files: [
                "/proc/self/cgroup": "9:name=systemd:/x\n4:cpu,memory:/docker/a:b\n",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "/sys/fs/cgroup/memory/docker/a:b/memory.limit_in_bytes": "67108864\n",
            ], bytes: 64 << 20),
    ])
    func theLeastLimitCounts(_ row: Row) { #expect(MemoryLimit.bytes { row.files[$0] } == row.bytes) }
}
