import Testing

@testable import Basics

@Suite struct DiskUnitTests {
    @Test func unitsCoverTheirBytes() {
        let unit = DiskUnit(bytes: 16 << 10)
        #expect(unit.touched(by: 0..<0).isEmpty)
        #expect(unit.touched(by: 0..<16_384) == 0..<1)
        #expect(unit.touched(by: 16_383..<16_385) == 0..<2)
        #expect(unit.range(of: 1..<3) == 16_384..<49_152)
        #expect(unit.roundedUp(0) == 0)
        #expect(unit.roundedUp(1) == 16_384)
        #expect(unit.roundedUp(16_384) == 16_384)
    }

    /// What a file system says, the page of memory, the unit.
    @Test(
        arguments: [
            (4096, 4096, 4096), (1024, 4096, 4096), (0, 65_536, 4096), (4096, 65_536, 4096), (65_536, 65_536, 65_536),
            (16_384, 16_384, 16_384), (1 << 20, 4096, 4096), (1 << 20, 65_536, 65_536), (5000, 65_536, 8192),
        ] as [(Int64, Int64, Int64)])
    func aUnitIsAPageAtMost(blockSize: Int64, page: Int64, bytes: Int64) {
        #expect(DiskUnit(blockSize: blockSize, page: page).bytes == bytes)
    }

    @Test func aMissingDirectoryHasTheUsualUnit() {
        #expect(DiskUnit(of: "/nowhere/at/all") == .usual)
    }

    @Test func aPageIsWhatProcessorsHave() {
        #expect([4096, 16_384, 65_536].contains(MemoryPage.size))
    }
}
