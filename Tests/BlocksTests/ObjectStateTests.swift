import Testing

@testable import Blocks

/// What is known of one object's blocks, without a disk.
struct ObjectStateTests {
    /// A read-ahead that wins space from its own chunk must not leave it charged for what has gone.
    @Test func whatLeavesWhileItsChunkIsWrittenComesBackToTheQuota() {
        var state = ObjectState(geometry: Geometry(size: Geometry.chunkSize))
        let (old, new) = (BlockSet(0..<8), BlockSet(8..<16))
        let first = state.claim(old, in: 0, epoch: 1)
        #expect(state.land(first.blocks, in: 0, cost: first.cost, checksums: [], epoch: 1) == 0)
        var charged = first.cost
        let second = state.claim(new, in: 0, epoch: 2)
        charged -= state.vacate(state.withdraw(old, from: 0), in: 0)
        charged += second.cost
        charged -= state.land(second.blocks, in: 0, cost: second.cost, checksums: [], epoch: 2)
        #expect(charged == Geometry(size: Geometry.chunkSize).charge(for: new, in: 0))
    }
}
