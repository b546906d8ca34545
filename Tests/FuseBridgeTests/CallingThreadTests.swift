import Basics
import FuseBridge
import Glibc
import Metadata
import TestSupport
import Testing

/// What proc(5) tells of a process.
@Suite(.serialized) struct CallingThreadTests {
    /// A process with very many descriptors is not looked through, and the answer does not cost what listing them does.
    @Test(.rule("create.empty")) func veryManyDescriptorsAreNotListed() throws {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let descriptors = (0..<min(6000, Int(limit.rlim_max) / 2)).map { _ in open("/dev/null", O_RDONLY) }
        defer { for descriptor in descriptors { close(descriptor) } }
        let thread = CallingThread(getpid())
        let clock = ContinuousClock()
        let listings = try clock.measure {
            for _ in 0..<20 { _ = try Directory.names(in: "/proc/self/fdinfo") }
        }
        let answers = clock.measure {
            for _ in 0..<20 { #expect(thread.mayHaveOpen(InodeNumber(rawValue: 1))) }
        }
        #expect(answers < listings / 4, "20 answers took \(answers), 20 listings \(listings)")
    }
}
