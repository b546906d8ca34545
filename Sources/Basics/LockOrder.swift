import Synchronization

/// The place of a lock in the order in which a task takes locks.
package struct LockPlace: Sendable {
    let level: Int
    let number: UInt64
    let name: StaticString

    /// Locks of one level are taken in the order of their numbers.
    package init(_ name: StaticString, level: Int, number: UInt64 = 0) {
        (self.name, self.level, self.number) = (name, level, number)
    }

    func comesAfter(_ other: LockPlace) -> Bool { (level, number) > (other.level, other.number) }
}

/// Checks that tasks take locks in one order, so that no two tasks wait for each other. In a debug build a task that would wait
/// for a lock traps when it holds one of the same place or a later one. A lock that it gets without waiting may have any place.
///
/// A release build has none of this.
package enum LockOrder {
    /// The locks that a task and its child tasks hold. The mutex is a leaf.
    final class Held: Sendable {
        /// The locks of the task that waits for this one.
        private let parent: Held?
        private let places = Mutex<[LockPlace]>([])

        init(below parent: Held?) { self.parent = parent }

        func check(_ place: LockPlace) {
            var next: Held? = self
            while let held = next {
                for other in held.places.withLock({ $0 }) {
                    precondition(
                        place.comesAfter(other),
                        "waits for \(place.name) \(place.number), holding \(other.name) \(other.number)")
                }
                next = held.parent
            }
        }

        func add(_ place: LockPlace) { places.withLock { $0.append(place) } }

        func remove(_ place: LockPlace) {
            places.withLock { places in
                let index = places.lastIndex { $0.level == place.level && $0.number == place.number }
                if let index { places.remove(at: index) }
            }
        }
    }

    #if DEBUG
        @TaskLocal private static var held: Held?
    #endif

    /// Runs a body that starts without locks, such as a task on a pool.
    @inline(__always)
    static func withoutLocks<Value>(_ body: () async -> Value) async -> Value {
        #if DEBUG
            await $held.withValue(Held(below: nil)) { await body() }
        #else
            await body()
        #endif
    }

    /// Runs the body of a child task, one of several, whose parent holds its own locks until the child has ended.
    package static func inChild<Value>(_ body: () async -> Value) async -> Value {
        #if DEBUG
            await $held.withValue(Held(below: held)) { await body() }
        #else
            await body()
        #endif
    }

    /// The task is about to wait for a lock.
    @inline(__always)
    package static func willWait(for place: LockPlace?) {
        #if DEBUG
            if let place { held?.check(place) }
        #endif
    }

    @inline(__always)
    package static func hasEntered(_ place: LockPlace?) {
        #if DEBUG
            if let place { held?.add(place) }
        #endif
    }

    @inline(__always)
    package static func hasLeft(_ place: LockPlace?) {
        #if DEBUG
            if let place { held?.remove(place) }
        #endif
    }
}
