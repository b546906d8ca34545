import ObjectStorage
import Testing

@testable import pailfs

@Suite struct HeaderChangeTests {
    @Test func aHeaderIsSetOrRemoved() throws {
        var metadata = ObjectMetadata(contentType: "text/plain", user: ["team": "red", "mode": "33188"])
        for text in ["Cache-Control: max-age=60 ", "content-type:", "X-Amz-Meta-Team: Blue", "x-object-meta-new: 1"] {
            try HeaderChange(text).apply(to: &metadata)
        }
        #expect(metadata.cacheControl == "max-age=60" && metadata.contentType == nil)
        #expect(metadata.user == ["team": "Blue", "new": "1", "mode": "33188"])
        try HeaderChange("x-cos-meta-team:").apply(to: &metadata)
        #expect(metadata.user["team"] == nil)
    }

    @Test(arguments: [
        ("Team: Blue", "is not a stored header"), ("no colon", "is not a stored header"),
        ("x-amz-meta-mtime: 1", "keeps attributes"), ("x-amz-meta-: 1", "are limited"),
        ("x-amz-meta-a/b: 1", "are limited"), ("Cache-Control: \u{e4}", "printable ASCII"),
    ])
    func anotherIsAnError(_ text: String, _ reason: String) throws {
        let error = #expect(throws: CommandError.self) { try HeaderChange(text) }
        #expect(error?.message.contains(reason) == true, "\(String(describing: error))")
    }
}
