import ObjectStorage
import Testing

@Suite struct RequestPricesTests {
    @Test func listingsCostWhatWritesDoAndDeletesNothingAtAmazon() {
        let estimate = RequestPrices.amazonS3.estimate([
            .put: 1000, .list: 500, .uploadPart: 400, .copy: 100, .get: 9000, .head: 1000, .delete: 70_000,
            .deleteMany: 5, .abortUpload: 5, .presign: 20,
        ])
        #expect(estimate.writes == 2000 && estimate.reads == 10_000 && estimate.free == 70_030)
        // 0.005 USD a thousand and 0.0004 USD a thousand.
        #expect(estimate.amount == 0.014)
    }

    @Test func whoDeletesPaysForItElsewhere() {
        for prices in [RequestPrices.oss, .cos, .kodo] {
            #expect(prices.priceClass(of: .delete) == .write && prices.priceClass(of: .deleteMany) == .write)
        }
        #expect(RequestPrices.kodo.estimate([.delete: 10_000, .get: 10_000]).amount == 0.11)
    }

    @Test func nothingCostsNothing() {
        #expect(RequestPrices.cos.estimate([:]).amount == 0)
    }

    /// As reports show it: a multiple of what one request costs, and no tail of binary fractions.
    @Test func amountsAreShort() {
        #expect(RequestPrices.amazonS3.estimate([.put: 37]).amount == 0.000185)
        #expect(RequestPrices.amazonS3.estimate([.put: 3, .get: 7]).amount == 0.0000178)
    }
}
