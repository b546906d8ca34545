/// Which blocks of a chunk to ask the store for. Pure.
package enum FetchPlan {
    /// The most present blocks between two missing ones that a sequential fetch includes rather than make two requests.
    package static let bridge = 16

    /// Runs of blocks to fetch so that every block of `extent` is present or on its way.
    ///
    /// Runs never contain a block in flight. They begin and end with a missing block, and include at most `bridge` present
    /// blocks in a row.
    package static func runs(
        in extent: Range<Int>, present: BlockSet, inFlight: BlockSet, bridge: Int
    ) -> [Range<Int>] {
        let missing = BlockSet(extent).subtracting(present).subtracting(inFlight)
        var runs: [Range<Int>] = []
        for run in missing.runs {
            if let last = runs.last, run.lowerBound - last.upperBound <= bridge,
                BlockSet(last.upperBound..<run.lowerBound).intersection(inFlight).isEmpty
            {
                runs[runs.count - 1] = last.lowerBound..<run.upperBound
            } else {
                runs.append(run)
            }
        }
        return runs
    }
}
