import Basics
import Testing

@testable import pailfs

@Suite struct WarmTallyTests {
    private let style = StatusStyle(columns: 100, isUTF8: false)

    @Test func theTotalIsShownOnceEverythingIsCounted() {
        let tally = WarmTally(places: 2, isShown: true)
        for _ in 0..<4 { tally.expect(1 << 20) }
        tally.counted()
        tally.read(1 << 20)
        tally.finished { true }
        #expect(tally.progress(after: .seconds(2), style) == "1 file, 1MiB; counting")
        tally.counted()
        #expect(
            tally.progress(after: .seconds(2), style)
                == "[#####---------------]  25%  1 of 4 files, 1MiB of 4MiB, 6s left")
        #expect(tally.text == "1 file, 1MiB")
    }

    @Test func nothingIsLeftWhenAllIsRead() {
        let tally = WarmTally(places: 1, isShown: true)
        tally.expect(10)
        tally.counted()
        tally.read(10)
        tally.finished { true }
        #expect(tally.progress(after: .seconds(2), style) == "[####################] 100%  1 of 1 file, 10B of 10B")
    }

    @Test func anEmptyFileAloneHasNoTimeLeft() {
        let tally = WarmTally(places: 1, isShown: true)
        tally.expect(0)
        tally.counted()
        #expect(tally.progress(after: .seconds(2), style).hasSuffix("0 of 1 file, 0B of 0B"))
    }
}
