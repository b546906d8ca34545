import Basics
import ObjectStorage
import Testing

@Suite struct ListingTests {
    /// Stores refuse what is longer than a key may be, as the start of a listing too.
    @Test(arguments: ["d/", "d/file", "a", "é", "~", "!", " ", "0"])
    func aListingThatIsToBeginWithAKeyStartsBeforeIt(_ text: String) {
        let key = ByteString(text)
        for excess in 0...5 {
            let bound = ListRequest.bound(before: key, longest: key.count + excess)
            #expect(bound < key)
            #expect(bound.count <= key.count + excess)
        }
        #expect(ListRequest.bound(before: "d/", longest: 1024) == "d.~~~~")
    }
}
