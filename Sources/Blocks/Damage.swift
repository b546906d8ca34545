package import Basics
package import ObjectStorage

/// Wrong bytes from the store that were found after readers may have had them.
struct Damage: Sendable {
    /// The damaged blocks by chunk; nil when it may be any.
    let blocks: [Int: BlockSet]?
    /// The error that readers of these blocks get.
    let error: ObjectStoreError
}

/// The blocks that one reader of an object has had, and whether some of them were damaged. A value: its owner locks it.
package struct DamageWatch: Sendable {
    /// How many damages of the object the reader has checked.
    private var seen: Int
    private var read: [Int: BlockSet] = [:]

    /// For a reader that has had no bytes yet.
    package init(_ object: CachedObject) { seen = object.damageCount }

    /// Whether damage was found that the reader has not checked yet.
    package func isBehind(_ object: CachedObject) -> Bool { object.damageCount != seen }

    /// Records that the reader has had `range`. Returns the error that it gets instead if any of its blocks was damaged; the
    /// record is empty from then on.
    package mutating func note(_ range: ByteRange, of object: CachedObject) -> ObjectStoreError? {
        cover(range, of: object)
        return check(object)
    }

    /// Checks without more bytes. A reader that waits for bytes also gets the error of an object that could not be fetched
    /// right.
    package mutating func check(_ object: CachedObject, isWaiting: Bool = false) -> ObjectStoreError? {
        guard isBehind(object) else { return nil }
        let (damages, count) = object.damages(after: seen)
        seen = count
        let hit = damages.first { damage in
            guard let blocks = damage.blocks else { return isWaiting || !read.isEmpty }
            return blocks.contains { !(read[$0.key] ?? .empty).intersection($0.value).isEmpty }
        }
        guard let hit else { return nil }
        read = [:]
        return hit.error
    }

    mutating func cover(_ range: ByteRange, of object: CachedObject) {
        for chunk in Geometry.chunks(touching: range) {
            read[chunk, default: .empty].formUnion(BlockSet(object.geometry.blocks(touching: range, in: chunk)))
        }
    }
}
