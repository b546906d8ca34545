import Basics
import ObjectStorage
import Testing

@Suite struct ListingProgressTests {
    private func page(_ keys: String..., goesOn: Bool = true) -> ListingPage {
        let objects = keys.map {
            ListedObject(
                key: ObjectKey(ByteString($0)), version: ObjectVersion(etag: ETag("e"), size: 1, modified: .epoch))
        }
        return ListingPage(objects: objects, next: goesOn ? ListingCursor("next") : nil)
    }

    /// Pages taken until it throws; nil when it does not.
    private func pages(_ next: (Int) -> ListingPage, atMost most: Int) -> Int? {
        var progress = ListingProgress()
        for number in 0..<most {
            do { try progress.take(next(number)) } catch { return number }
        }
        return nil
    }

    @Test func aListingThatGoesForwardMayBeAsLongAsItLikes() {
        #expect(pages({ page("\(100_000 + $0)") }, atMost: 20_000) == nil)
    }

    @Test func repeatedEndsAndEmptyPagesAreBorneForAWhile() {
        #expect(pages({ page($0 % 10 == 0 ? "\(1000 + $0)" : "0") }, atMost: 1000) == nil)
        #expect(pages({ $0 % 5000 == 0 ? page("\(100_000 + $0)") : page() }, atMost: 20_000) == nil)
    }

    @Test func aListingThatStandsStillEnds() {
        #expect(pages({ _ in page("a", "b") }, atMost: 1000) == 17)
        #expect(pages({ page($0 % 2 == 0 ? "a" : "b") }, atMost: 1000) == 18)
        #expect(pages({ _ in page() }, atMost: 20_000) == 10_000)
    }

    @Test func theLastPageIsNeverAnError() throws {
        var progress = ListingProgress()
        for _ in 0..<100 { try progress.take(page("a", goesOn: false)) }
    }
}
