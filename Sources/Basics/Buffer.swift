import CLinux
import Synchronization

/// A page-aligned block of memory borrowed from a `BufferPool`; returned to it when the last reference ends.
///
/// The pool hands a buffer to one owner. Owners that share it (a fetch filled by the transport, read by waiters) must
/// order their accesses themselves: bytes below a published count are never written again.
package final class Buffer: @unchecked Sendable {
    // Sendable: the pointer is constant, and the rule above orders the bytes behind it.
    package let base: UnsafeMutableRawPointer
    /// In bytes.
    package let capacity: Int
    private let pool: BufferPool

    fileprivate init(base: UnsafeMutableRawPointer, capacity: Int, pool: BufferPool) {
        (self.base, self.capacity, self.pool) = (base, capacity, pool)
    }

    deinit { pool.takeBack(base, capacity: capacity) }

    package var bytes: UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(start: base, count: capacity)
    }

    /// Copies `bytes` to `offset`.
    package func write(_ bytes: RawSpan, at offset: Int) {
        precondition(offset >= 0 && bytes.byteCount <= capacity - offset, "bytes exceed the buffer")
        bytes.withUnsafeBytes { source in
            guard !source.isEmpty else { return }
            UnsafeMutableRawBufferPointer(rebasing: self.bytes[offset...]).copyMemory(from: source)
        }
    }

    /// Whether the bytes from `offset` on are `bytes`.
    package func holds(_ bytes: RawSpan, at offset: Int) -> Bool {
        precondition(offset >= 0 && bytes.byteCount <= capacity - offset, "bytes exceed the buffer")
        return bytes.withUnsafeBytes { expected in
            guard let start = expected.baseAddress else { return true }
            return memcmp(base + offset, start, expected.count) == 0
        }
    }

    /// Lends the bytes in `range`.
    package func withBytes<Result, Failure: Error>(
        _ range: Range<Int>, _ body: (RawSpan) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try body(UnsafeRawBufferPointer(rebasing: bytes[range]).bytes)
    }
}

/// Reuses large buffers, since the first touch of fresh memory costs more than the copy into it (1.8-4.7 us a page).
///
/// Each buffer counts against the memory budget from `borrow` until it is freed. Idle buffers stay counted, are reused first,
/// and are freed as far as needed when another user of the budget lacks memory. The memory of the last freed buffer is kept,
/// uncounted, until the next buffer is made: under pressure the next one is mostly for a waiter of the same size. Large
/// buffers are mappings of their own, so that freed memory returns to the system: malloc(3) keeps holes of such sizes in each
/// of its arenas, which took several times the budget. Locked by its own mutex, a leaf.
package final class BufferPool: Sendable {
    private struct Idle: @unchecked Sendable {
        // Sendable: an idle buffer has no owner but the pool.
        let base: UnsafeMutableRawPointer
        let size: Int
    }

    private struct State {
        /// By size; each counts against the budget.
        var idle: [Int: [Idle]] = [:]
        /// Not counted against the budget.
        var freed: Idle?
    }

    package let budget: MemoryBudget
    private let state = Mutex(State())
    /// The smallest buffer, and the alignment of memory that direct I/O needs; not the size of a memory page.
    private static let unit = 4096
    /// Buffers of at least this size are made of huge pages: one fault then stands for 512.
    private static let hugePageSize = 2 << 20
    /// The smallest buffer that is a mapping of its own.
    private static let mappedSize = 1 << 20

    package init(budget: MemoryBudget) {
        self.budget = budget
        budget.addReclaimer { [weak self] bytes in self?.freeIdle(atLeast: bytes) }
    }

    deinit { freeIdle() }

    /// A buffer of at least `capacity` bytes (rounded up to a power of two of pages); waits for the budget.
    package func borrow(_ capacity: Int) async throws(CancellationError) -> Buffer {
        let size = Self.sizeClass(capacity)
        if let buffer = tryBorrow(size) { return buffer }
        try await budget.reserve(size)
        return allocate(size)
    }

    /// The same without waiting: nil when the budget is used up.
    package func tryBorrow(_ capacity: Int) -> Buffer? {
        let size = Self.sizeClass(capacity)
        if let idle = state.withLock({ $0.idle[size]?.popLast() }) {
            return Buffer(base: idle.base, capacity: size, pool: self)
        }
        return budget.tryReserve(size) ? allocate(size) : nil
    }

    /// Returns every idle buffer to the system and the budget.
    package func freeIdle() {
        freeIdle(atLeast: .max)
        keepFreed(nil)
    }

    /// Frees idle buffers until `bytes` are released or none is left: the smallest that is enough, or else the largest.
    private func freeIdle(atLeast bytes: Int) {
        var missing = bytes
        while missing > 0 {
            let buffer: Idle? = state.withLock { state in
                let sizes = state.idle.keys.filter { state.idle[$0]?.isEmpty == false }
                guard let size = sizes.filter({ $0 >= missing }).min() ?? sizes.max() else { return nil }
                return state.idle[size]?.popLast()
            }
            guard let buffer else { return }
            missing -= buffer.size
            keepFreed(buffer)
            budget.release(buffer.size)
        }
    }

    private func keepFreed(_ buffer: Idle?) {
        let older = state.withLock { state in
            defer { state.freed = buffer }
            return state.freed
        }
        if let older { Self.free(older) }
    }

    private func allocate(_ size: Int) -> Buffer {
        let freed = state.withLock { state in
            defer { state.freed = nil }
            return state.freed
        }
        if let freed {
            if freed.size == size { return Buffer(base: freed.base, capacity: size, pool: self) }
            Self.free(freed)
        }
        guard let base = size >= Self.mappedSize ? Self.map(size) : Self.carve(size) else {
            fatalError("no memory for a buffer of \(size) bytes")
        }
        return Buffer(base: base, capacity: size, pool: self)
    }

    private static func carve(_ size: Int) -> UnsafeMutableRawPointer? {
        var base: UnsafeMutableRawPointer?
        return posix_memalign(&base, unit, size) == 0 ? base : nil
    }

    private static func map(_ size: Int) -> UnsafeMutableRawPointer? {
        // The kernel makes only whole huge pages.
        guard size >= hugePageSize else { return linux_map(size, unit) }
        let base = linux_map(size, hugePageSize)
        if let base { linux_use_huge_pages(base, size) }
        return base
    }

    private static func free(_ buffer: Idle) {
        if buffer.size >= mappedSize { munmap(buffer.base, buffer.size) } else { CLinux.free(buffer.base) }
    }

    fileprivate func takeBack(_ base: UnsafeMutableRawPointer, capacity: Int) {
        // First idle, then the check for waiters: see `MemoryBudget.addReclaimer`.
        state.withLock { $0.idle[capacity, default: []].append(Idle(base: base, size: capacity)) }
        if budget.hasWaiters { freeIdle(atLeast: .max) }
    }

    private static func sizeClass(_ capacity: Int) -> Int {
        var size = unit
        while size < capacity { size *= 2 }
        return size
    }
}

extension Buffer {
    /// `count` bytes from `offset`; both must lie within the capacity.
    package func slice(_ offset: Int, _ count: Int) -> UnsafeMutableRawBufferPointer {
        UnsafeMutableRawBufferPointer(rebasing: bytes[offset..<(offset + count)])
    }

    /// A copy of the first `count` bytes.
    package func prefix(_ count: Int) -> ByteString { ByteString(bytes[..<count]) }
}
