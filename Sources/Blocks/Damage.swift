package import Basics
package import ObjectStorage

/// Bytes that the store sent and that were wrong, as they were found out after readers may have had them.
struct Damage: Sendable {
    /// By chunk; nil when it may be any.
    let blocks: [Int: BlockSet]?
    /// What readers of them hear.
    let error: ObjectStoreError
}

/// What one reader of an object has had, and whether it had damaged bytes. A value: its owner locks it.
package struct DamageWatch: Sendable {
    /// How many damages of the object the reader is past.
    private var seen: Int
    private var read: [Int: BlockSet] = [:]

    /// A reader that has had nothing yet.
    package init(_ object: CachedObject) { seen = object.damageCount }

    /// Whether damage was found that the reader has not heard of.
    package func isBehind(_ object: CachedObject) -> Bool { object.damageCount != seen }

    /// The reader has had `range`. Answers the error that it hears instead, if any of what it had was damaged: from then on
    /// it has had nothing.
    package mutating func note(_ range: ByteRange, of object: CachedObject) -> ObjectStoreError? {
        cover(range, of: object)
        return check(object)
    }

    /// The same without more bytes. A reader that waits for bytes also hears of an object that did not come right.
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
