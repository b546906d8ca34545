import Basics
import Testing

@testable import pailfs

@Suite struct ObjectTargetTests {
    @Test(arguments: [
        ("s3://bucket", ""), ("s3://bucket/", ""), ("s3://bucket/a", "a"), ("s3://bucket/a/", "a/"),
        ("s3://bucket/a//", "a//"), ("s3://bucket/a//b", "a//b"), ("s3://bucket//", "/"), ("s3://bucket//a", "/a"),
        ("oss://", ""), ("oss:///", ""),
    ])
    func aURLNamesItsKeyByteForByte(text: String, path: String) {
        #expect(ObjectTarget.path(ofURL: text) == ByteString(path))
    }
}
