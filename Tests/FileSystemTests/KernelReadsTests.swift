import Basics
import Blocks
import Logging
import Metadata
import Synchronization
import TestSupport
import Testing

@testable import FileSystem

/// A kernel that takes files, as far as it is told to.
private final class FakeKernel: BackingKernel {
    struct State {
        var entered: Set<Int32> = []
        var noted: [InodeNumber: BackedInode] = [:]
        var last: Int32 = 0
        var asked = 0
        var refuses = false
        var room = Int.max
    }

    let state = Mutex(State())
    let backedInodes: [BackedInode]

    init(_ inodes: [BackedInode] = []) {
        backedInodes = inodes
        state.withLock { state in
            for inode in inodes {
                state.noted[inode.ino] = inode
                state.entered.insert(inode.backing)
                state.last = max(state.last, inode.backing)
            }
        }
    }

    var allowsBacking: Bool { true }
    var isEmpty: Bool { state.withLock { $0.entered.isEmpty && $0.noted.isEmpty } }

    func enter(_ file: File) throws(FileError) -> Int32 {
        let backing: Int32? = state.withLock { state in
            state.asked += 1
            if state.refuses { return nil }
            state.last += 1
            state.entered.insert(state.last)
            return state.last
        }
        guard let backing else { throw FileError(errno: 1, operation: "enter", path: file.path) }
        return backing
    }

    func leave(_ backing: Int32) { state.withLock { _ = $0.entered.remove(backing) } }

    func note(_ backing: BackedInode) -> Bool {
        state.withLock { state in
            guard state.noted.count < state.room else { return false }
            state.noted[backing.ino] = backing
            return true
        }
    }

    func forget(_ ino: InodeNumber) { state.withLock { $0.noted[ino] = nil } }
}

/// A lender that counts what is out.
private final class Lender: Sendable {
    private let directory: TemporaryDirectory
    private let file: File
    private let out = Mutex(0)
    let hasIt = Mutex(true)

    init() throws {
        directory = try TemporaryDirectory()
        file = try File(directory.path("file"), .readWrite, create: .ifMissing)
    }

    var isBack: Bool { out.withLock { $0 == 0 } }

    func lend() -> LentFile? {
        guard hasIt.withLock({ $0 }) else { return nil }
        out.withLock { $0 += 1 }
        return LentFile(file: file, number: 7)
    }

    func takeBack(_ number: Int64) {
        #expect(number == 7)
        out.withLock { $0 -= 1 }
    }
}

@Suite struct KernelReadsTests {
    private let ino = InodeNumber(rawValue: 5)

    private func reads(_ kernel: FakeKernel, _ lender: Lender) -> KernelReads {
        KernelReads(kernel, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }) { lender.takeBack($0) }
    }

    @Test func allHandlesOfAnInodeAreOfTheKindOfTheFirst() throws {
        let (kernel, lender) = (FakeKernel(), try Lender())
        let reads = reads(kernel, lender)
        lender.hasIt.withLock { $0 = false }
        let early = reads.open(ino, direct: false, lend: lender.lend)
        #expect(early.backing == nil)
        lender.hasIt.withLock { $0 = true }
        let late = reads.open(ino, direct: false, lend: lender.lend)
        #expect(late.backing == nil, "the kernel has pages of ours for it")
        #expect(kernel.isEmpty && lender.isBack)
        reads.close(ino, early)
        reads.close(ino, late)

        let first = reads.open(ino, direct: false, lend: lender.lend)
        let second = reads.open(ino, direct: true, lend: lender.lend)
        #expect(first.backing != nil && second.backing == first.backing)
        #expect(reads.backedCount == 1)
        lender.hasIt.withLock { $0 = false }
        #expect(reads.open(ino, direct: false, lend: lender.lend).backing == first.backing)
        for _ in 0..<2 { reads.close(ino, first) }
        #expect(!kernel.isEmpty && !lender.isBack, "one is open")
        reads.close(ino, first)
        #expect(kernel.isEmpty && lender.isBack && reads.backedCount == 0)
    }

    @Test func whatGoesAroundThePagesBindsNobody() throws {
        let (kernel, lender) = (FakeKernel(), try Lender())
        let reads = reads(kernel, lender)
        let direct = reads.open(ino, direct: true, lend: lender.lend)
        #expect(direct.backing == nil)
        let backed = reads.open(ino, direct: false, lend: lender.lend)
        #expect(backed.backing != nil)
        reads.close(ino, direct)
        #expect(reads.backedCount == 1)
        reads.close(ino, backed)
        #expect(kernel.isEmpty && lender.isBack)
    }

    @Test func whatTheNextProcessCouldNotKnowIsNotBegun() throws {
        let (kernel, lender) = (FakeKernel(), try Lender())
        kernel.state.withLock { $0.room = 0 }
        let reads = reads(kernel, lender)
        let kind = reads.open(ino, direct: false, lend: lender.lend)
        #expect(kind.backing == nil)
        #expect(kernel.isEmpty && lender.isBack)
        reads.close(ino, kind)
    }

    @Test func aKernelThatRefusesIsNotAskedAgain() throws {
        let (kernel, lender) = (FakeKernel(), try Lender())
        kernel.state.withLock { $0.refuses = true }
        let reads = reads(kernel, lender)
        for _ in 0..<3 {
            let kind = reads.open(ino, direct: false, lend: lender.lend)
            #expect(kind.backing == nil)
            reads.close(ino, kind)
        }
        #expect(kernel.state.withLock { $0.asked } == 1)
        #expect(lender.isBack)
    }

    @Test func theNextProcessGoesOnWithTheSameFile() throws {
        let kernel = FakeKernel([BackedInode(ino: ino, file: 7, backing: 3)])
        let lender = try Lender()
        // Lent by the process before.
        _ = lender.lend()
        let reads = reads(kernel, lender)
        let old = reads.adopt(ino, isBacked: true, direct: false)
        let new = reads.open(ino, direct: false, lend: lender.lend)
        #expect(old.backing == 3 && new.backing == 3)
        reads.close(ino, old)
        reads.close(ino, new)
        #expect(kernel.isEmpty && lender.isBack)

        let other = InodeNumber(rawValue: 6)
        let cached = reads.adopt(other, isBacked: false, direct: false)
        let later = reads.open(other, direct: false, lend: lender.lend)
        #expect(later.backing == nil, "the kernel has pages of ours for it")
        reads.close(other, cached)
        reads.close(other, later)
        #expect(lender.isBack)
    }

    @Test func openingAndClosingAtOnceLeavesNothing() async throws {
        let (kernel, lender) = (FakeKernel(), try Lender())
        let reads = reads(kernel, lender)
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<8 as Range<UInt64> {
                group.addTask {
                    for round in 0..<500 as Range<UInt64> {
                        let ino = InodeNumber(rawValue: 2 + (task + round) % 3)
                        let kind = reads.open(ino, direct: round % 7 == 0, lend: lender.lend)
                        if round % 5 == 0 { await Task.yield() }
                        reads.close(ino, kind)
                    }
                }
            }
        }
        #expect(kernel.isEmpty && lender.isBack && reads.backedCount == 0)
    }
}
