import Testing

@testable import FileSystem

@Suite struct HandleNumberTests {
    @Test(arguments: [
        nil, OpenFlags(reads: true, writes: false), OpenFlags(reads: false, writes: true),
        OpenFlags(reads: true, writes: true, direct: true),
    ])
    func aNumberTellsHowItsHandleWasOpenedAndByWhichProcess(_ flags: OpenFlags?) {
        let number = HandleNumber(flags: flags, generation: 7, count: 1 << 39)
        #expect(HandleNumber(number.id) == number)
        let backed = HandleNumber(flags: flags, isBacked: flags != nil, generation: 7, count: 3)
        #expect(HandleNumber(backed.id) == backed)
    }

    @Test func onlyHandlesOfEarlierProcessesHaveAnOrigin() {
        let table = HandleTable(generation: 3)
        #expect(table.origin(of: HandleNumber(flags: nil, generation: 2, count: 5).id)?.count == 5)
        #expect(table.origin(of: HandleNumber(flags: nil, generation: 3, count: 5).id) == nil)
        #expect(table.origin(of: HandleNumber(flags: nil, generation: 4, count: 5).id) == nil)
    }
}
